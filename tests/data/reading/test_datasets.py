"""What a batch of a split contains."""

import pytest
import torch

from attention_lab.data.reading.batches import Unseen
from attention_lab.data.reading.datasets import TransductionSplit


@pytest.mark.parametrize("unseen", [Unseen(source=("q",)), Unseen(references=(("q",),))])
def test_a_batch_has_the_unknown_symbols_of_either_side(unseen: Unseen) -> None:
    rows = [[5, 2], [1, 2]]
    split = TransductionSplit(rows, rows, [[row] for row in rows], [[], []], unseen=[Unseen(), unseen])
    assert split[torch.tensor([1, 0])].unseen == (unseen, Unseen())
    assert split[torch.tensor([0])].unseen == (Unseen(),)


def test_without_unknown_symbols_there_are_none_for_any_example() -> None:
    split = TransductionSplit([[5, 2]], [[5, 2]], [[[5, 2]]], [[]], unseen=[Unseen(references=((),))])
    assert split[torch.tensor([0])].unseen == ()
