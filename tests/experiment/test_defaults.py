"""An option has one default, whether a class is made from `conf/` or in Python."""

import inspect
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import get_object
from omegaconf import OmegaConf

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
GIVEN = {"mechanism", "sizes", "query_size", "key_size", "heads"}
"""Arguments that the program passes itself."""
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


@pytest.mark.parametrize("choices", _rows(), ids=" ".join)
def test_conf_and_python_have_the_same_defaults(choices: list[str]) -> None:
    assert differences(_composed(*choices)) == {}


@pytest.mark.parametrize("group", ["model", "data", "scoring", "normalizer", "window", "pooling"])
def test_conf_lists_every_option(group: str) -> None:
    """So the command line knows each one, its type too, without a +."""
    missing = {}
    for path in (CONF / group).glob("*.yaml"):
        node = OmegaConf.load(path)
        node = node.get(group, node)
        options = inspect.signature(get_object(node["_target_"])).parameters
        named = {
            name for name, one in options.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
        missing[path.stem] = named - node.keys() - GIVEN
    assert {name: options for name, options in missing.items() if options} == {}


def test_conf_and_theorems_have_the_same_defaults() -> None:
    found = {name: differences({"theorem": _composed(f"experiment={name}")["theorem"]}) for name in THEOREMS}
    assert {name: options for name, options in found.items() if options} == {}


def test_a_difference_is_seen() -> None:
    config = _composed("model=seq2seq")
    config["model"]["layers"] = 7
    config["scoring"]["activation"] = "relu"
    assert differences(config) == {"model.layers": (7, 1), "scoring.activation": ("relu", "tanh")}
