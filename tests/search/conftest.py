"""What tests of searches get."""

from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="package", autouse=True)
def _migrations_loaded_once() -> Iterator[None]:
    """Optuna loads a dozen migrations whenever it opens a study, which takes longer than a test."""
    util = pytest.importorskip("alembic.util")
    load = util.load_python_file
    once = cache(load)
    with pytest.MonkeyPatch.context() as patch:
        # What is called env.py is run rather than loaded.
        patch.setattr(
            util, "load_python_file", lambda folder, name: (load if name == "env.py" else once)(folder, name)
        )
        yield
