"""Alignments worked out by hand, against the edit distance, and the order of the table."""

import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.metrics import Edit, align, confusions, edit_distance

words = st.lists(st.integers(4, 7), max_size=8)


def _edits(output: str, reference: str) -> list[tuple[str | None, str | None]]:
    def symbol(number: int | None) -> str | None:
        return None if number is None else chr(number)

    found = align([ord(c) for c in output], [ord(c) for c in reference])
    return [(symbol(edit.expected), symbol(edit.output)) for edit in found]


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("abc", "abc", []),
        ("axc", "abc", [("b", "x")]),
        ("ac", "abc", [("b", None)]),
        ("abxc", "abc", [(None, "x")]),
        ("", "ab", [("a", None), ("b", None)]),
        ("ab", "", [(None, "a"), (None, "b")]),
        ("sitting", "kitten", [("k", "s"), ("e", "i"), (None, "g")]),
        ("rain", "shine", [("s", "r"), ("h", "a"), ("e", None)]),
        ("ba", "ab", [("a", "b"), ("b", "a")]),  # as few as a deletion and an insertion: pairs come first
    ],
)
def test_alignments_by_hand(
    output: str, reference: str, expected: list[tuple[str | None, str | None]]
) -> None:
    assert _edits(output, reference) == expected


@pytest.mark.long
def test_long_sequences_take_no_table_of_all_pairs() -> None:
    """It would have 9 million numbers, 72 MB."""
    output, reference = [4, 5, 6] * 1_000, [4, 6] * 1_500
    tracemalloc.start()
    found = align(output, reference)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    lengths = torch.tensor([3_000])
    assert len(found) == int(
        edit_distance(torch.tensor([output]), lengths, torch.tensor([reference]), lengths)
    )


def _apply(reference: list[int], edits: list[Edit]) -> list[list[int]]:
    """All results of applying the edits to the reference in order, each anywhere after the one before."""
    if not edits:
        return [reference]
    edit, *rest = edits
    found = []
    for place in range(len(reference) + 1):
        if edit.expected is not None and reference[place : place + 1] != [edit.expected]:
            continue
        begin = reference[:place] + ([] if edit.output is None else [edit.output])
        behind = reference[place + (edit.expected is not None) :]
        found += [begin + end for end in _apply(behind, rest)]
    return found


@given(words, words)
def test_the_edits_are_the_fewest_and_lead_from_one_to_the_other(
    output: list[int], reference: list[int]
) -> None:
    found = align(output, reference)
    sides = [
        value
        for ids in (output, reference)
        for value in (torch.tensor([ids]).long(), torch.tensor([len(ids)]))
    ]
    assert len(found) == int(edit_distance(*sides))
    assert all(edit.expected != edit.output for edit in found)
    assert output in _apply(reference, found)


def test_the_commonest_come_first_and_ties_in_a_fixed_order() -> None:
    pairs = [
        ([4, 9, 9], [4, 5, 5]),  # 9 for 5, twice
        ([4], [4, 5]),  # 5 left out
        ([4, 5, 8], [4, 5]),  # 8 added
        ([7, 9], [7, 5]),  # 9 for 5
        ([9], [4]),  # 9 for 4
        ([6], [6]),
        ([4, 9], [4, 5]),  # 9 for 5
        ([8], [4]),  # 8 for 4
        ([4], [8]),  # 4 for 8
    ]
    found = confusions(pairs)
    assert [(tuple(one.edit), one.edit.kind, one.times, one.example) for one in found] == [
        ((5, 9), "substitution", 4, 3),
        ((4, 8), "substitution", 1, 7),
        ((4, 9), "substitution", 1, 4),
        ((8, 4), "substitution", 1, 8),
        ((5, None), "deletion", 1, 1),
        ((None, 8), "insertion", 1, 2),
    ]
    assert [one[:2] for one in confusions(reversed(pairs))] == [one[:2] for one in found]
    assert confusions([]) == []
