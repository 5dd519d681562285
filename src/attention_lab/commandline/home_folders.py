"""Expand `~` at the start of paths: shells do so only in some arguments, and Hydra's grammar has no `~`."""

import os
import re
from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.option_paths import flatten
from attention_lab.commandline.overrides import split_override

_HOME = r"~[\w.-]*(?=/)|~(?=$|[\"',\]])"
_FIRST = re.compile(rf"^([\"']?)({_HOME})")
_ITEMS = re.compile(rf"((?:^|[\[,])\s*[\"']?)({_HOME})")
_TEXTS = ("inputs",)
"""Options whose lists are texts, not paths."""


def with_home_folders(arguments: Sequence[str]) -> list[str]:
    """Command-line arguments with `~` and `~user` expanded at the start of values and of list items."""
    return [_expand(text) for text in arguments]


def _expand(text: str) -> str:
    option = split_override(text)
    if not option.value or text.startswith("-"):
        return text
    quoted = option.value[0] in "\"'"
    places = _FIRST if quoted or option.key in _TEXTS else _ITEMS
    value = places.sub(lambda found: found[1] + os.path.expanduser(found[2]), option.value)  # noqa: PTH111
    return text.removesuffix(option.value) + value


def expand_in_configuration(config: DictConfig) -> None:
    """Expand `~/` in paths set by configuration files, such as `data.file` of an experiment."""
    for key, value in flatten(OmegaConf.to_container(config)):  # type: ignore[arg-type]
        if isinstance(value, str) and value.startswith("~/"):
            OmegaConf.update(config, key, os.path.expanduser(value))  # noqa: PTH111  # this never fails
