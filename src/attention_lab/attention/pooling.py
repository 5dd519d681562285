"""Pooling: from weights and values to the context."""

from jaxtyping import Float
from torch import Tensor, nn


class Soft(nn.Module):
    """Expectation of the values under the weights, `c = sum_i a_i v_i` (1409.0473, eq. 5)."""

    def forward(
        self, weights: Float[Tensor, "... Q K"], value: Float[Tensor, "... K dv"]
    ) -> Float[Tensor, "... Q dv"]:
        """Context of each query."""
        return weights.to(value.dtype) @ value
