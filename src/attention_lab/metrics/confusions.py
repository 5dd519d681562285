"""Which symbols are taken for which: the edits that lead from references to outputs, counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int

Kind = Literal["substitution", "deletion", "insertion"]


class Edit(NamedTuple):
    """One step from a reference to an output.

    Attributes:
        expected: the symbol of the reference, None for an insertion.
        written: the symbol of the output, None for a deletion.
    """

    expected: int | None
    written: int | None

    @property
    def kind(self) -> Kind:
        """What kind of edit it is."""
        if self.expected is None:
            return "insertion"
        return "deletion" if self.written is None else "substitution"


class Confusion(NamedTuple):
    """An edit, how many times it is made, and the number of an example with it.

    It is the example with the fewest edits in all, which shows it best, and the first of such examples.
    """

    edit: Edit
    times: int
    example: int


def align(output: Sequence[int], reference: Sequence[int]) -> list[Edit]:
    """The fewest edits that make the output of the reference, from left to right.

    They are as many as `edit_distance` says, found by going back through the same table (Wagner & Fischer
    1974). Of several ways back, at each step a pair of symbols comes before a deletion, and that before an
    insertion: so the result is one and the same for the same two sequences.
    """
    table = _table(output, reference)
    i, j = len(output), len(reference)
    found = []
    while i or j:
        here = table[i, j]
        if i and j and here == table[i - 1, j - 1] + (output[i - 1] != reference[j - 1]):
            i, j = i - 1, j - 1
            if output[i] != reference[j]:
                found.append(Edit(reference[j], output[i]))
        elif j and here == table[i, j - 1] + 1:
            j -= 1
            found.append(Edit(reference[j], None))
        else:
            i -= 1
            found.append(Edit(None, output[i]))
    return found[::-1]


def _table(output: Sequence[int], reference: Sequence[int]) -> Int[np.ndarray, "S T"]:
    """Distances of all beginnings of the one to all of the other; rows as in `edit_distance`."""
    symbols = np.asarray(reference, dtype=np.int64)
    column = np.arange(len(reference) + 1)
    rows = [column]
    for symbol in output:
        row = rows[-1]
        best = row + 1
        best[1:] = np.minimum(best[1:], row[:-1] + (symbols != symbol))
        rows.append(np.minimum.accumulate(best - column) + column)
    return np.stack(rows)


def confusions(pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> list[Confusion]:
    """All edits of the pairs (output, reference), the commonest first.

    Equally common ones come in the order substitutions, deletions, insertions, each by the numbers of their
    symbols. The examples are numbered from 0 as they come.
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
    return -confusion.times, kinds.index(edit.kind), edit.expected or 0, edit.written or 0
