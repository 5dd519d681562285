"""Point out or reject a line that is far too long, such as a whole file joined into one line."""

from collections.abc import Sequence
from statistics import median_low

from attention_lab.console_text import counted
from attention_lab.data.reading.files import MOST_SYMBOLS
from attention_lab.errors import LabError

_LONG, _RATIO = 1_000, 20
"""Minimum length of a long line, in symbols and as a multiple of the median."""


def check_length(places: Sequence[str], lengths: Sequence[int], symbols: str, remedy: str) -> None:
    """Raise LabError, naming the place of the longest line, if it has more than `MOST_SYMBOLS` symbols.

    Args:
        places: `file:line` of each line.
        lengths: the number of symbols in each line.
        symbols: what they are called, in the plural.
        remedy: what the user can do instead of leaving the line out.
    """
    length, place = max(zip(lengths, places, strict=True), key=lambda one: one[0], default=(0, ""))
    if length > MOST_SYMBOLS:
        at_most = f"at most {MOST_SYMBOLS:,} are allowed: leave it out, or {remedy}"
        raise LabError(f"{place}: {length:,} {symbols}, but {at_most}")


def longest_allowed(
    places: Sequence[str], lengths: Sequence[int], symbols: str, max_length: int | None
) -> int:
    """The number of symbols that a model has to read: `data.max_length`, or that of the longest line.

    Raises:
        LabError: there is no `data.max_length`, and the longest line is too long; see `check_length`.
    """
    if max_length is not None:
        return max_length
    longest = max(lengths)
    check_length(places, lengths, symbols, f"set data.max_length={longest}")
    return longest


def long_line_hint(places: Sequence[str], lengths: Sequence[int], symbols: str) -> dict[str, str]:
    """A line about the longest line, by its place; empty if it is not far longer than half of the lines.

    Args:
        places: `file:line` of each line.
        lengths: the number of symbols in each line.
        symbols: what they are called, in the plural.
    """
    if not lengths:
        return {}
    middle = median_low(lengths)
    long = [row for row, length in enumerate(lengths) if length >= max(_LONG, _RATIO * middle)]
    if not long:
        return {}
    longest = max(long, key=lengths.__getitem__)
    more = f" ({counted(len(long) - 1, 'more such line')})" if len(long) > 1 else ""
    place, length = places[longest], lengths[longest]
    return {
        place: f"{place}: {length:,} {symbols}, although half of the lines have at most {middle:,}: a batch "
        "with such a line takes memory and time for its length; leave it out, or split it if it is several "
        f"examples{more}"
    }
