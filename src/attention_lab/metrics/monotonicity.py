"""Whether attention moves forward."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lab.metrics.fractions import Counts

SLACK = 1e-3
"""A decrease by less than this fraction of a position is rounding: weights are often single precision."""


def expected_positions(weights: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows"]:
    """Mean position to which each row attends, `sum_j j a_j / sum_j a_j`; NaN for a row without weight."""
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    positions = torch.arange(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    return (weights * positions).sum(-1) / weights.sum(-1)


def monotonicity(weights: Float[Tensor, "*heads Q K"]) -> Float[Tensor, "*heads"]:
    """Share of the steps from one row to the next at which the expected position does not decrease.

        1 / (Q - 1) sum_{t=1}^{Q-1} [m_{t+1} >= m_t - 0.001]

    with m_t the expected position of row t. The value is 1 for a copy, for repetitions and for identical
    rows, 0 for a reversal, and about 1/2 for unrelated rows. It uses the expected position
    (`expected_positions`) instead of that of the largest weight, which jumps back and forth in a flat row.
    Steps from or to a row without weight are not counted; NaN if no step is counted.
    """
    forward, counted = _steps(weights)
    return forward.sum(-1) / counted.sum(-1)


def _steps(weights: Tensor) -> tuple[Tensor, Tensor]:
    """For each step from one row to the next, whether it does not go back, and whether it is counted."""
    positions = expected_positions(weights)
    known = positions.isfinite()
    # A comparison with NaN is False.
    return positions[..., 1:] >= positions[..., :-1] - SLACK, known[..., 1:] & known[..., :-1]


class Monotonicity(Counts):
    """Share of the steps at which each head's expected position does not decrease; see `monotonicity`.

    Args:
        heads: number of heads, each with its own value.
    """

    def update(self, weights: Float[Tensor, "B H Q K"], mask: Bool[Tensor, "B Q"] | None = None) -> None:
        """Count a batch.

        Args:
            weights: attention of each head.
            mask: True for the rows that count, e.g. not padding; all by default. A step counts if both its
                rows do.

        Raises:
            ValueError: the weights do not have the expected number of heads.
        """
        self.check_heads(weights)
        forward, counted = _steps(weights)
        if mask is not None:
            counted = counted & (mask[:, 1:] & mask[:, :-1]).unsqueeze(1)
        self.numerator += (forward & counted).sum((0, 2))
        self.denominator += counted.sum((0, 2))
