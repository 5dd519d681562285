"""An option has one default, whether a class is made from `conf/` or in Python."""

import inspect
import itertools
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import get_object
from omegaconf import OmegaConf

from attention_lab.argument_checks import option_types
from attention_lab.experiment.part_options import PASSED

CONF = Path(__file__).parents[2] / "conf"
GROUPS = (
    "model",
    "data",
    "scoring",
    "normalizer",
    "window",
    "pooling",
    "schedule",
    "callbacks",
    "logger",
    "sweep",
)
GIVEN = {
    **PASSED,
    "task": ("model", "codec", *PASSED["task"]),
    "schedule": ("optimizer", "total_steps"),
    "callbacks.pruning.trial": ("number",),
}
"""Arguments of each part that the program passes itself."""
NOT_PLAIN = {
    "theorem": ("pairs", "mechanism", "plain", "scaled"),
    "callbacks.attention_maps": (
        "batch",
        "labels",
        "forward",
        "images",
        "patch_size",
        "name",
        "every_n_epochs",
    ),
}
"""Options that take objects, or have no effect without one."""
LIBRARY_DEFAULTS = ("attention_lab.callbacks.BestCheckpoint",)
"""Classes with the constructor of a library, from whose defaults `conf/` may differ."""
THEOREMS = [path.stem for path in (CONF / "experiment").glob("*.yaml") if "\ntheorem:" in path.read_text()]
"""The other experiments are there to set options to something else than their defaults."""


def _parts(node: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The nodes that one of this project's classes is made of, by their path."""
    if isinstance(node, dict):
        target = str(node.get("_target_"))
        if target.startswith("attention_lab.") and target not in LIBRARY_DEFAULTS:
            yield path, node
        for key, value in node.items():
            yield from _parts(value, f"{path}.{key}".lstrip("."))


def _same(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


def differences(config: Mapping[str, Any]) -> dict[str, tuple[object, object]]:
    """The options whose value differs from the default in Python: both, by the option's path."""
    found = {}
    for path, node in _parts(config):
        parameters = inspect.signature(get_object(node["_target_"])).parameters
        for name, value in node.items():
            default = parameters[name].default if name in parameters else inspect.Parameter.empty
            is_set_elsewhere = isinstance(value, str) and ("${" in value or value == "???")
            if default is not inspect.Parameter.empty and not is_set_elsewhere and not _same(value, default):
                found[f"{path}.{name}"] = (value, default)
    return found


@cache
def _composed(*choices: str) -> dict[str, Any]:
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        plain = OmegaConf.to_container(compose("config", list(choices)), resolve=False)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _rows() -> list[list[str]]:
    """Every choice of every group once, in as few compositions as the largest group has choices."""
    columns = [[f"{group}={path.stem}" for path in sorted((CONF / group).glob("*.yaml"))] for group in GROUPS]
    return [[one for one in row if one] for row in itertools.zip_longest(*columns)]


@pytest.mark.long
@pytest.mark.parametrize("choices", _rows(), ids=" ".join)
def test_conf_and_python_have_the_same_defaults(choices: list[str]) -> None:
    assert differences(_composed(*choices)) == {}


def missing(config: Mapping[str, Any]) -> set[str]:
    """The options of the configured classes that the configuration leaves out, by their paths."""
    found = set()
    for path, node in _parts(config):
        left_out = {*node, *GIVEN.get(path, ()), *NOT_PLAIN.get(path, ())}
        found |= {
            f"{path}.{name}" for name in option_types(get_object(node["_target_"])) if name not in left_out
        }
    return found if "ctc_frames" in config["model"] else found - {"task.ctc"}


EXPERIMENTS = [[f"experiment={path.stem}"] for path in sorted((CONF / "experiment").glob("*.yaml"))]


@pytest.mark.long
@pytest.mark.parametrize("choices", [*_rows(), *EXPERIMENTS], ids=" ".join)
def test_conf_lists_every_option(choices: list[str]) -> None:
    """So the command line knows each one, its type too, without a +."""
    assert missing(_composed(*choices)) == set()


def test_conf_and_theorems_have_the_same_defaults() -> None:
    found = {name: differences({"theorem": _composed(f"experiment={name}")["theorem"]}) for name in THEOREMS}
    assert {name: options for name, options in found.items() if options} == {}


def test_a_difference_is_seen() -> None:
    config = deepcopy(_composed("model=seq2seq"))
    config["model"]["layers"] = 7
    config["scoring"]["activation"] = "relu"
    assert differences(config) == {"model.layers": (7, 1), "scoring.activation": ("relu", "tanh")}


def test_a_missing_option_is_seen() -> None:
    config = deepcopy(_composed("model=seq2seq", "experiment=scaling"))
    options = {"model.layers", "task.ctc", "schedule.final", "theorem.draws"}
    for part, option in (path.split(".") for path in options):
        del config[part][option]
    assert missing(config) == options
