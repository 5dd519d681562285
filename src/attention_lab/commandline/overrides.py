"""Overrides, as Hydra calls what is on its command line: read here, and nowhere else.

`parse` and `parse_all` follow Hydra's grammar. `split` does not need it, and is for lines that may break it:
a command line before it is checked, or the overrides in a run's folder, which may come from anybody.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, Quote, QuotedString
from hydra.errors import HydraException

from attention_lab.errors import LabError


class Written(NamedTuple):
    """An override by its text: `+model.layers=2` is `+`, `model.layers` and `2`."""

    sign: str
    key: str
    value: str

    @property
    def removes(self) -> bool:
        """Whether it takes an option away, as `~callbacks.progress_bar`."""
        return "~" in self.sign


def split(text: str) -> Written:
    """The sign, the key and the value of an override; the value with the quotes around it, if any."""
    signed, _, value = text.partition("=")
    key = signed.lstrip("+~")
    return Written(signed.removesuffix(key), key, value)


def keys(texts: Iterable[str]) -> list[str]:
    """The options of a command line, each once."""
    return list(dict.fromkeys(split(text).key for text in texts))


def part_of(key: str) -> str:
    """The part of the configuration that an option is in: `sweep` of `sweep.trials` and `sweep/sampler`."""
    return key.partition(".")[0].partition("/")[0]


def paths_given(texts: Iterable[str], *options: str) -> list[str]:
    """The values of options that are paths, in order, without quotes.

    A path may hold characters that Hydra reads only between quotes.
    """
    given = (split(text) for text in texts)
    return [one.value.strip("\"'") for one in given if one.key in options and not one.removes]


@cache
def parse(text: str) -> Override:
    """One override. Raises LabError, with what would be right, if Hydra could not read it."""
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException:
        pass
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise LabError(f"{text} is no option: write name=value, such as seed=2")
    for opening, closing in ("[]", "{}"):
        if value.startswith(opening) and not value.endswith(closing):
            raise LabError(f"{text}: a {closing} is missing at its end")
    if value.startswith("["):
        right = f"{key}=[{', '.join(quote(item.strip()) for item in value[1:-1].split(','))}]"
    else:
        right = f"{key}={quote(value)}"
    raise LabError(f"{text} cannot be read: put quotes around what is no plain word, as in '{right}'")


def parse_all(texts: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """All overrides of a command line that Hydra has read; the loader is needed for `glob(*)`."""
    return OverridesParser.create(config_loader=loader).parse_overrides(list(texts))


def read_value(text: str) -> Any:
    """The value that a text has on the command line: `1e-3` is a number, `null` is None."""
    return parse(f"x={text}").value()


def listed_values(override: Override) -> list[Any]:
    """The values that an option gets: of a sweep those that it lists, and none of a range."""
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return [item.text if isinstance(item, QuotedString) else item for item in value.list]
    return [] if override.is_sweep_override() else [value]


def listed_texts(override: Override) -> list[str]:
    """The same, each as on a command line of its own; none of an option that is taken away."""
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return [item.with_quotes() if isinstance(item, QuotedString) else write(item) for item in value.list]
    if override.is_sweep_override() or override.is_delete():
        return []
    return [split(str(override.input_line)).value]


def sweep_sizes(overrides: Iterable[Override]) -> dict[str, int | None]:
    """How many values each option takes: None if it is no sweep, 0 where that is open, as of an interval."""

    def size(one: Override) -> int | None:
        if not one.is_sweep_override():
            return None
        return len(list(one.sweep_string_iterator())) if one.is_discrete_sweep() else 0

    return {one.key_or_group: size(one) for one in overrides}


def write(value: object) -> str:
    """A value as on the command line, text without quotes."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def quote(value: object) -> str:
    """A value as on the command line, text between quotes."""
    return QuotedString(value, Quote.double).with_quotes() if isinstance(value, str) else write(value)
