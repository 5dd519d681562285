"""Recognise texts that are lists of symbols with spaces between them, such as phones: `HH AH L OW`."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from attention_lab.text_tables import printable

_READ, _LEAST = 10_000, 20
"""The largest number of texts to look at, and the smallest number from which to conclude anything."""
_INVENTORY, _LENGTH = 300, 2.5
"""The most distinct symbols, and their greatest mean length; words have 4 characters or more."""
_HAPAX, _SINGLE, _SAME = 0.1, 0.1, 0.9
"""The largest shares of symbols that occur once, of texts with one symbol, and of texts of equal length."""


def space_hint(texts: Sequence[str], side: str) -> str:
    """A line that suggests splitting texts at spaces, if they look like lists of symbols; otherwise empty.

    Unlike words, symbols are few and short, and new texts hardly add any. The share of symbols that occur
    only once estimates how many new ones there would be (Good 1953). Texts in a fixed format, such as dates,
    have the same number of fields.

    Args:
        texts: the texts of the training split, which are split into characters.
        side: "source" or "target".
    """
    split = [text.split() for text in islice(texts, _READ)]
    symbols = Counter(symbol for row in split for symbol in row)
    lengths = Counter(map(len, split))
    total, rows = symbols.total(), len(split)
    if (
        rows < _LEAST
        or len(symbols) > _INVENTORY
        or sum(count == 1 for count in symbols.values()) > _HAPAX * total
        or sum(len(symbol) * count for symbol, count in symbols.items()) > _LENGTH * total
        or lengths[1] > _SINGLE * rows
        or max(lengths.values()) > _SAME * rows
    ):
        return ""
    longer = [symbol for symbol, _ in symbols.most_common() if len(symbol) > 1]
    if not longer:
        return ""
    shortest = min((row for row in split if longer[0] in row), key=lambda row: len(row))
    example = printable(" ".join(shortest), 40)
    return (
        f"the {side}s look like symbols with spaces between them ('{example}'), "
        f"but are read character by character: data.{side}_split=spaces reads '{longer[0]}' as one symbol"
    )
