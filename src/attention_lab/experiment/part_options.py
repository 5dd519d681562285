"""Check the options of a part against the class that they configure, before it is built."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import get_object

from attention_lab.argument_checks import option_types, wrong_types
from attention_lab.attention.checks.parts import kind_of_part
from attention_lab.commandline.option_paths import flatten, lookup
from attention_lab.commandline.overrides import as_text
from attention_lab.config_parts import MECHANISM
from attention_lab.constructor_options import closest
from attention_lab.errors import BAD_VALUE_ERRORS, LabError
from attention_lab.untrusted.run_parts import SUBPACKAGES, wrong_class

BUILD_ERRORS = (*BAD_VALUE_ERRORS, InstantiationException)
"""Errors that classes raise for values they cannot use, and Hydra for a class it cannot find."""
PASSED = {
    "model": ("mechanism", "sizes"),
    "scoring": ("query_size", "key_size", "heads"),
    "window": ("query_size", "heads"),
    "normalizer": ("heads",),
    "task": ("recipe", "optimizer", "schedule"),
}
"""Arguments of a part's constructor that are not options: the program passes them, a model's by position."""


def check_part_options(config: Mapping[str, Any]) -> None:
    """Check that no part has the class of another part, or an option that the program would replace.

    Raises:
        LabError: a part has one. The class would fail only in the first step; the option would do nothing.
    """
    for part in SUBPACKAGES:
        target = str(lookup(config, part, "_target_"))
        with suppress(ImportError, *BUILD_ERRORS):  # the code that builds the part reports it
            if wrong := wrong_class(target, part) or _other_part(target, part):
                raise LabError(f"{part}._target_={target} {wrong}: choose a class for {part}")
    replaced = [(part, option) for part in PASSED if part != "model" for option in PASSED[part]]
    for part, option in replaced:
        if (value := lookup(config, part, option)) is not None:
            given = f"{part}.{option}={as_text(value)}"
            raise LabError(f"{given} has no effect, as the program sets it: leave it out")


def check_option_types(config: Mapping[str, Any]) -> None:
    """Check the options of our own classes against their annotations.

    A class that cannot be found is left to the code that builds the part.

    Raises:
        LabError: an option has the wrong type; its class would treat any value as true, or fail later.
    """
    for part, target in targets_of(config).items():
        with suppress(ImportError, *BUILD_ERRORS):
            if target.startswith("attention_lab.") and (wrong := wrong_options(part, config, target)):
                raise LabError(wrong[0])


def check_typed_option(part: str, option: str, target: str) -> None:
    """Raise LabError if an option on the command line is not an option of a part's class.

    A class that cannot be found is left to the code that builds the part.
    """
    try:
        known = option_types(get_object(target))
    except BUILD_ERRORS:
        return
    if option not in known:
        raise LabError(_no_option(part, option, target))


def targets_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The class of each part."""
    return {
        path.removesuffix("._target_"): str(value)
        for path, value in flatten(config)
        if path.endswith("._target_")
    }


def wrong_options(part: str, config: Mapping[str, Any], target: str) -> list[str]:
    """A message for each option whose value does not fit its annotation."""
    options = lookup(config, *part.split("."))
    wrong = wrong_types(get_object(target), options)
    return [f"{part}.{name}={as_text(options[name])} must be {allowed}" for name, allowed in wrong.items()]


def not_an_option(part: str, option: str, target: str, configured: Sequence[str]) -> str:
    """The message for an option that a class does not take, with all others of this kind."""
    known, kind = option_types(get_object(target)), target.rpartition(".")[2]
    others = [name for name in configured if name not in known]
    if len(others) > 1:
        paths = [f"{part}.{name}" for name in others]
        removed = " ".join(f"~{path}" for path in paths)
        return (
            f"{', '.join(paths[:-1])} and {paths[-1]} are not options of {kind}: leave them out, or remove "
            f"those in conf/ with {removed}"
        )
    return f"{_no_option(part, option, target)}, or remove the one in conf/ with ~{part}.{option}"


def _no_option(part: str, option: str, target: str) -> str:
    near = closest(option, option_types(get_object(target)).keys() - set(PASSED.get(part, ())))
    hint = f"did you mean {part}.{near}? Or " if near else ""
    return f"{part}.{option} is not an option of {target.rpartition('.')[2]}: {hint}leave it out"


def _other_part(target: str, part: str) -> str:
    """Why a class, which may be user-defined, is another part of a mechanism; empty if it is not."""
    made = get_object(target) if part in MECHANISM else None
    meant = kind_of_part(made) if isinstance(made, type) else None
    return "" if meant in (None, "score" if part == "scoring" else part) else f"is a {meant}"
