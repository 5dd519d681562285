import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data.reading.ragged import Ragged

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
