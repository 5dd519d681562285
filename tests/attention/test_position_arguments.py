"""Positions are counts, and are applied to vectors."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_lab.attention.positions import Alibi, Learned, Quadratic, Relative, Rotary, Sinusoidal, T5Bias
from attention_lab.errors import LabError


def _rotate(x: Any, offset: int = 0) -> Tensor:
    return Rotary(2, 4).rotate(x, offset)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("apply", [Sinusoidal(8, 5), Learned(8, 5), _rotate])
def test_positions_are_applied_to_vectors_at_whole_positions(apply: Callable[..., Tensor]) -> None:
    for x, error, complaint in (
        ([1.0], TypeError, r"^positions take a tensor, not a list$"),
        (torch.ones(2, 5, 8, dtype=torch.long), ValueError, r"floating-point vectors, .*, got torch\.int64$"),
        (torch.ones(2, 5, 7), ValueError, r"vectors \[\.\.\., L, .*, got \[2, 5, 7\]$"),
    ):
        with pytest.raises(error, match=complaint):
            apply(x)
    for offset, complaint in ((1.5, "whole number, not 1.5"), (None, "number, not None"), (-1, "at least 0")):
        with pytest.raises(LabError, match=f"^offset must be .*{complaint}"):
            apply(torch.ones(2, 5, 8), offset)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("kind", [Rotary, Alibi, Quadratic, T5Bias])
def test_a_prefix_and_a_grid_are_counts(kind: Callable[..., Relative]) -> None:
    for prefix in (-1, 1.0, None, math.nan):
        with pytest.raises(LabError, match=r"^prefix must be"):
            kind(2, 4, prefix=prefix)
    for grid, complaint in (
        ((2,), r"^grid must be two numbers, of rows and columns, not \(2,\)$"),
        (3, r"^grid must be two numbers, of rows and columns, not 3$"),
        ((2, 0), r"^a number in grid must be at least 1, got 0$"),
        ((2, 1.5), r"^a number in grid must be a whole number, not 1\.5$"),
    ):
        with pytest.raises(LabError, match=complaint):
            kind(2, 4, grid=grid)
