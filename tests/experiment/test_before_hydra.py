"""Hydra's registry of configurations is shared, and what is loaded from it is not."""

import copy
import runpy
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore

TRAIN = Path(__file__).parents[2] / "train.py"


def test_the_program_shares_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ConfigStore, "__deepcopy__", raising=False)
    store = ConfigStore.instance()
    assert copy.deepcopy(store) is not store
    try:
        runpy.run_path(str(TRAIN))
        assert copy.deepcopy(store) is store
    finally:
        del ConfigStore.__deepcopy__  # type: ignore[attr-defined]


def test_a_loaded_configuration_is_a_copy() -> None:
    """The assumption on Hydra that makes sharing safe."""
    store = ConfigStore.instance()
    first, second = (store.load("hydra/config.yaml").node for _ in range(2))
    first.output_subdir = "changed"
    assert second.output_subdir == ".hydra"
