"""What the callback says of each attention in numbers."""

import math

import pytest
import torch

from attention_lab.callbacks.attention_maps import MEASURES


def test_numbers_of_each_head() -> None:
    spread = torch.full((3, 3), 1 / 3)
    weights = torch.stack([torch.eye(3), torch.eye(3).flip(0), spread])
    assert MEASURES["attention_entropy"](weights).tolist() == pytest.approx([0, 0, math.log(3)])
    assert MEASURES["attention_monotonicity"](weights).tolist() == [1, 0, 1]
    assert MEASURES["attention_monotonicity"](weights[:, :1]).isnan().all()  # one row does not move
