"""What tests of searches get."""

import functools
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _migrations_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna loads a dozen migrations whenever it opens a study, which takes longer than a test."""
    util = pytest.importorskip("alembic.util")
    load = util.load_python_file
    once = _cached(load)
    # What is called env.py is run rather than loaded.
    monkeypatch.setattr(
        util, "load_python_file", lambda folder, name: (load if name == "env.py" else once)(folder, name)
    )


@functools.cache
def _cached(load: Any) -> Any:
    return functools.cache(load)
