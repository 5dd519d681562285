"""The lists of a configuration's parts agree with the configuration."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from attention_lab import config_parts
from attention_lab.attention import Mechanism
from attention_lab.commandline.option_paths import flatten

CONF = Path(__file__).parents[1] / "conf"


def test_every_part_is_in_the_configuration() -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = OmegaConf.to_container(compose("config"), resolve=False)
    assert isinstance(config, dict)
    listed = {
        *config_parts.RESUMED,
        *config_parts.REBUILT,
        *config_parts.HPARAMS,
        *config_parts.GROUPS,
        *config_parts.COMPARED,
    }
    assert listed - set(config) == set()
    known = dict(flatten(config))
    assert set(config_parts.HPARAMS_HIDDEN) - set(known) == set()
    named = (*config_parts.MAY_CHANGE, *config_parts.DISPLAY_ONLY)
    assert all(any(path.startswith(key) for path in known) for key in named)
    assert set(config_parts.INDIFFERENT) - {"launcher", "sweep"} - set(config) == set()


@pytest.mark.parametrize("model", ["multihead", "transformer", "lm", "graph"])
def test_options_that_older_runs_do_not_list_have_the_values_of_conf(model: str) -> None:
    """So the same command continues such a run, and is the same setting."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config: Any = OmegaConf.to_container(compose("config", [f"model={model}"]), resolve=False)
    for part, option in (("model", "norm"), ("schedule", "final"), ("task", "label_smoothing")):
        older = {name: value for name, value in config[part].items() if name != option}
        if part != "task" or model == "graph":
            assert config_parts.completed(older) == config[part] != older
    own = {"_target_": "mine.Model"}
    assert config_parts.completed(own) == own


@pytest.mark.parametrize("group", config_parts.GROUPS)
def test_every_group_has_choices(group: str) -> None:
    assert list((CONF / group).glob("*.yaml"))


def test_a_checkpoint_keeps_its_parts_in_the_order_of_older_ones() -> None:
    order = ("model", "task", "scoring", "normalizer", "pooling", "window", "data")
    assert order == config_parts.REBUILT


def test_the_mechanism_is_in_the_order_of_its_class() -> None:
    names = ["scoring" if field.name == "score" else field.name for field in fields(Mechanism)]
    assert names == list(config_parts.MECHANISM)
