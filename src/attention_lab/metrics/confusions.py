"""Which symbols are confused with which: counts of the edits from references to outputs."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

Kind = Literal["substitution", "deletion", "insertion"]

_FEWEST = 64  # rows that are kept anyway


class Edit(NamedTuple):
    """One step from a reference to an output.

    Attributes:
        expected: the symbol in the reference, None for an insertion.
        output: the symbol in the output, None for a deletion.
    """

    expected: int | None
    output: int | None

    @property
    def kind(self) -> Kind:
        """The kind of edit."""
        if self.expected is None:
            return "insertion"
        return "deletion" if self.output is None else "substitution"


class Confusion(NamedTuple):
    """An edit, its count, and the number of an example that contains it.

    The example is the first of those with the fewest edits in total, which show the edit best.
    """

    edit: Edit
    times: int
    example: int


def align(output: Sequence[int], reference: Sequence[int]) -> list[Edit]:
    """A shortest list of edits from the reference to the output, from left to right.

    There are `edit_distance` edits, found by backtracking through the same table (Wagner & Fischer
    1974). Ties are broken at each step in favour of a pair of symbols, then a deletion, then an insertion, so
    the result is deterministic. Of many rows S, only every sqrt(S)-th one is kept; those between two of them
    are computed again.
    """
    size = max(math.isqrt(len(output)), _FEWEST)
    firsts = range(0, len(output), size)
    rows = _rows(output[: firsts[-1] if firsts else 0], reference, np.arange(len(reference) + 1))
    kept = list(islice(rows, None, None, size))
    i, j = len(output), len(reference)
    found = []
    for first in reversed(firsts):
        table = list(_rows(output[first : first + size], reference, kept[first // size]))
        while i > first:
            here, above = table[i - first], table[i - first - 1]
            if j and here[j] == above[j - 1] + (output[i - 1] != reference[j - 1]):
                i, j = i - 1, j - 1
                if output[i] != reference[j]:
                    found.append(Edit(reference[j], output[i]))
            elif j and here[j] == here[j - 1] + 1:
                j -= 1
                found.append(Edit(reference[j], None))
            else:
                i -= 1
                found.append(Edit(None, output[i]))
    found += [Edit(symbol, None) for symbol in reversed(reference[:j])]
    return found[::-1]


def _rows(
    output: Sequence[int], reference: Sequence[int], row: Int[np.ndarray, " T"]
) -> Iterator[Int[np.ndarray, " T"]]:
    """A row of distances between prefixes, as in `edit_distance`, and the ones below, one for each symbol."""
    symbols, column = np.asarray(reference, dtype=np.int64), np.arange(len(reference) + 1)
    yield row
    for symbol in output:
        best = row + 1
        best[1:] = np.minimum(best[1:], row[:-1] + (symbols != symbol))
        row = np.minimum.accumulate(best - column) + column
        yield row


def confusions(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> list[Confusion]:
    """All edits of the pairs (output, reference), most common first.

    Among equally common edits, substitutions come before deletions and insertions, and each kind is sorted by
    the ids of the symbols. Examples are numbered from 0.
    """
    counts: Counter[Edit] = Counter()
    clearest: dict[Edit, tuple[int, int]] = {}
    for number, (output, reference) in enumerate(pairs):
        found = align(output, reference)
        counts.update(found)
        for edit in found:
            clearest[edit] = min(clearest.get(edit, (len(found), number)), (len(found), number))
    return sorted((Confusion(edit, times, clearest[edit][1]) for edit, times in counts.items()), key=_order)


def _order(confusion: Confusion) -> tuple[int, int, int, int]:
    edit, kinds = confusion.edit, ("substitution", "deletion", "insertion")
    return -confusion.times, kinds.index(edit.kind), edit.expected or 0, edit.output or 0
