"""Read Hydra's overrides, the arguments of the command line.

`parse_override` and `parse_overrides` follow Hydra's grammar. `split_override` is for text that may violate
it: a command line that has not been checked yet, or the overrides in a run's folder, which may come from
anyone.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from attention_lab.config_parts import MOST_LEVELS, REBUILT
from attention_lab.errors import LabError

_ITEM = re.compile(r"""(?:\s*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')\s*(?=,|$))|(?:\\.|[^,\\])+""")
"""An item of a list: quoted text, or everything up to the next comma."""
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)


class SplitOverride(NamedTuple):
    """The parts of an override's text: `+model.layers=2` is `+`, `model.layers` and `2`."""

    sign: str
    key: str
    value: str

    @property
    def removes(self) -> bool:
        """Whether it removes an option, like `~callbacks.progress_bar`."""
        return "~" in self.sign


def split_override(text: str) -> SplitOverride:
    """The sign, key and value of an override; the value keeps any quotes around it."""
    signed, _, value = text.partition("=")
    key = signed.lstrip("+~")
    return SplitOverride(signed.removesuffix(key), key, value)


def option_names(texts: Iterable[str]) -> list[str]:
    """The options on a command line, without duplicates."""
    return list(dict.fromkeys(split_override(text).key for text in texts))


def as_typed(texts: Any) -> list[str]:
    """The overrides in an OmegaConf list as they were typed; interpolations stay unresolved."""
    typed: Any = OmegaConf.to_container(texts, resolve=False)
    return typed  # type: ignore[no-any-return]


def part_of(key: str) -> str:
    """The top-level part that an option belongs to: `sweep` for `sweep.trials` and `sweep/sampler`."""
    return key.partition(".")[0].partition("/")[0]


def paths_given(texts: Iterable[str], *options: str) -> list[str]:
    """The values of these options, which are paths, in order and without quotes.

    A path may contain characters that Hydra accepts only in quotes.
    """
    given = (split_override(text) for text in texts)
    return [_path(one.value) for one in given if one.key in options and not one.removes]


def _path(text: str) -> str:
    if text.startswith(("'", '"')):
        with suppress(LabError):
            return str(parse_override(f"path={text}").value())
    return text.strip("\"'")


@cache
def parse_override(text: str) -> Override:
    """Parse one override. Raises LabError, suggesting a correction, if it violates Hydra's grammar."""
    try:
        parsed = OverridesParser.create().parse_override(text)
        too_deep = _levels(parsed) > MOST_LEVELS
        if parsed.key_or_group and not too_deep:  # none in "@package=value"
            return parsed
    except HydraException:
        too_deep = False
    except RecursionError:
        too_deep = True
    if too_deep:
        raise LabError(f"{text[:60]}... cannot be read: it has more than {MOST_LEVELS} levels of options")
    key, equals, value = text.partition("=")
    if not equals or not key.partition("@")[0]:
        raise LabError(
            f"{text} is not an option: write name=value, such as seed=2; "
            "a value with spaces needs quotes: 'notes=\"a b\"'"
        )
    for opening, closing in ("[]", "{}"):
        if value.startswith(opening) and not value.endswith(closing):
            hint = f"a value with spaces needs quotes: '{key}={opening}...{closing}'"
            raise LabError(f"{text}: a {closing} is missing at the end; {hint}")
    if value.startswith("["):
        right = f"{key}=[{', '.join(quote(item) for item in list_items(value))}]"
    else:
        right = f"{key}={quote(value)}"
    raise LabError(f"{text} cannot be read: put quotes around special characters, as in '{right}'")


def _levels(override: Override) -> int:
    """The number of levels of options in an override's key and values: 3 for `a.b=[1]`."""
    return (override.key_or_group or "").count(".") + 1 + max(map(_depth, listed_values(override)), default=0)


def _depth(value: Any) -> int:
    """How deeply lists and groups are nested in a value; 0 for a number or a text."""
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def parse_overrides(texts: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Parse the overrides of a command line that Hydra has accepted; `glob(*)` needs the loader."""
    return OverridesParser.create(config_loader=loader).parse_overrides(list(texts))


def sweep_overrides(config: DictConfig) -> list[Override]:
    """The overrides of a sweep: the parameters of its sweeper, then those of the command line."""
    params = OmegaConf.select(config, "hydra.sweeper.params") or {}
    given = [*(f"{key}={value}" for key, value in params.items()), *config.hydra.overrides.task]
    return parse_overrides(given, GlobalHydra.instance().config_loader())


def needs_listed_values(config: DictConfig) -> bool:
    """Whether a sweep is run by Hydra's own sweeper; those of its plugins may take ranges."""
    return str(config.hydra.sweeper._target_).endswith(".BasicSweeper")


def read_value(text: str) -> Any:
    """The value of a text on the command line: `1e-3` is a number, `null` is None."""
    return parse_override(f"x={text}").value()


def list_items(text: str) -> list[str]:
    r"""The items of a list as text, without quotes; Hydra would convert numbers, booleans and null.

    >>> list_items('[007, null, "two, three", a \\" b]')
    ['007', 'null', 'two, three', 'a " b']
    """
    items = (found.group().strip() for found in _ITEM.finditer(text[1:-1]))
    bare = (item[1:-1] if _QUOTED.fullmatch(item) else item for item in items)
    return [re.sub(r"\\([\\\"',])", r"\1", item) for item in bare]


def listed_values(override: Override) -> list[Any]:
    """The values given to an option: all of them in a sweep over a list; none for a range."""
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return [Override._convert_value(item) for item in value.list]  # without quotes
    return [] if override.is_sweep_override() else [value]


def options_given(overrides: Iterable[Override], part: str) -> set[str]:
    """The options within a part of the configuration that a command line gives, without its name."""
    return {
        one.key_or_group.removeprefix(f"{part}.")
        for one in overrides
        if one.key_or_group.startswith(f"{part}.")
    }


def sweep_sizes(overrides: Iterable[Override]) -> dict[str, int | None]:
    """The number of values of each option: None if it is not swept, 0 if unbounded, like an interval."""
    return {override.key_or_group: _sweep_size(override) for override in overrides}


def _sweep_size(override: Override) -> int | None:
    if not override.is_sweep_override():
        return None
    return len(list(override.sweep_string_iterator())) if override.is_discrete_sweep() else 0


def as_text(value: object) -> str:
    """A value as written on the command line, text without quotes."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def quote(value: object) -> str:
    """A value as written on the command line, text in quotes."""
    return QuotedString(value, Quote.double).with_quotes() if isinstance(value, str) else as_text(value)


def with_test_options(arguments: Sequence[str]) -> list[str]:
    """Arguments in which `stage=test` sets options of a checkpoint even if the chosen parts lack them.

    The chosen parts are the defaults, not those of the checkpoint, which are known only later.
    """
    given = map(split_override, arguments)
    tests = any(one.key == "stage" and one.value.strip("\"'") == "test" for one in given)
    parts = tuple(f"{part}." for part in REBUILT)
    return [f"++{text}" if tests and text.startswith(parts) else text for text in arguments]
