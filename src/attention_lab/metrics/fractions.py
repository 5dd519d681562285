"""The state that every measure here shares: a numerator and a denominator, both sums."""

import torch
from torch import Tensor
from torchmetrics import Metric


class Fraction(Metric):
    """A ratio of two sums, so that the value of many batches or ranks is that of one big batch.

    Args:
        shape: shape of the value, scalar by default.

    The value is NaN where nothing was counted.
    """

    is_differentiable = False
    full_state_update = False

    numerator_type = torch.float32
    numerator: Tensor
    denominator: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.add_state("numerator", torch.zeros(shape, dtype=self.numerator_type), dist_reduce_fx="sum")
        # a whole number: as a float32 it would stop growing at 2^24
        self.add_state("denominator", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """Ratio of the sums so far."""
        return self.numerator / self.denominator


class Counts(Fraction):
    """A ratio of two whole numbers, counted exactly."""

    numerator_type = torch.int64
