"""The base class of all metrics here: the ratio of two sums."""

import torch
from torch import Tensor
from torchmetrics import Metric

from attention_lab.argument_checks import check_number, kind_of


class Fraction(Metric):
    """A ratio of two sums, so that the value over many batches or ranks equals that of one big batch.

    Args:
        heads: number of values, one for each head of an attention.

    The value is `[heads]`, or a scalar for one head (torchmetrics squeezes it), and NaN where nothing was
    counted.
    """

    is_differentiable = False
    full_state_update = False

    numerator_type = torch.float32
    numerator: Tensor
    denominator: Tensor

    def __init__(self, heads: int = 1) -> None:
        super().__init__()
        check_number("heads", heads, least=1, whole=True)
        self.heads = heads
        self.add_state("numerator", torch.zeros(heads, dtype=self.numerator_type), dist_reduce_fx="sum")
        # an integer: in float32 it would stop growing at 2^24
        self.add_state("denominator", torch.zeros(heads, dtype=torch.int64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """Ratio of the sums so far."""
        return self.numerator / self.denominator

    def check_heads(self, weights: object) -> None:
        """Raise an error if weights are not a tensor `[B, H, Q, K]` with the expected number of heads."""
        if not isinstance(weights, Tensor):
            raise TypeError(f"weights must be a tensor, not {kind_of(weights)}")
        if weights.dim() != 4:
            raise ValueError(f"weights must be [B, H, Q, K], got {list(weights.shape)}")
        if weights.shape[1] != self.heads:
            raise ValueError(
                f"{type(self).__name__} is for {self.heads} heads, but the weights have {weights.shape[1]}"
            )


class Counts(Fraction):
    """A ratio of two integers, counted exactly."""

    numerator_type = torch.int64
