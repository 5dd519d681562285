import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.data.reading.ragged import Ragged, RaggedVectors
from attention_lab.errors import LabError

ROWS = st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=8)


def test_rows_are_padded_to_the_longest_that_is_asked_for() -> None:
    ragged = Ragged([[5, 6, 7], [8], []], padding=-1)
    assert ragged[torch.tensor([0, 1])].tolist() == [[5, 6, 7], [8, -1, -1]]
    assert ragged[torch.tensor([1, 2])].tolist() == [[8], [-1]]
    assert ragged[torch.tensor([2])].shape == (1, 0)
    assert ragged.padded(torch.tensor([2]), 2).tolist() == [[-1, -1]]


def test_an_index_of_several_dimensions_gives_as_many() -> None:
    ragged = Ragged([[], [4, 5], [6]])
    assert ragged[torch.tensor([[1, 2], [2, 0]])].tolist() == [[[4, 5], [6, 0]], [[6, 0], [0, 0]]]


@given(ROWS, st.data())
def test_every_row_comes_back(rows: list[list[int]], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    padded = Ragged(rows, padding=9)[torch.tensor(index)].tolist()
    width = max(len(rows[i]) for i in index)
    assert padded == [rows[i] + [9] * (width - len(rows[i])) for i in index]


def test_sequences_of_vectors_are_padded_with_zeros() -> None:
    ragged = RaggedVectors([torch.ones(2, 3, dtype=torch.float64), torch.full((1, 3), 2), torch.ones(0, 3)])
    assert (ragged.features, ragged.lengths.tolist()) == (3, [2, 1, 0])
    picked = ragged[torch.tensor([1, 0])]
    assert picked.dtype == torch.float32
    assert picked.tolist() == [[[2.0] * 3, [0.0] * 3], [[1.0] * 3] * 2]
    assert RaggedVectors([]).lengths.tolist() == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([torch.ones(2, 3), torch.ones(2, 4)], r"\[2, 4\]"),
        ([torch.ones(2)], r"\[2\]"),
        ([torch.ones(2, 3, 1)], r"\[2, 3, 1\]"),
        ([[[1.0, 2.0]]], "a list"),
    ],
)
def test_anything_but_vectors_of_one_size_is_rejected(rows: list[Tensor], found: str) -> None:
    with pytest.raises(LabError, match=rf"RaggedVectors needs tensors \[L, d\] with the same d, not {found}"):
        RaggedVectors(rows)
