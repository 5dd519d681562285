"""How spread out attention is."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention_entropy(
    weights: Float[Tensor, "*rows K"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows"]:
    """Shannon entropy of each row of weights, in nats.

        -sum_k a_k ln a_k,   0 ln 0 = 0

    From 0 (one key has all the weight) to ln K (uniform). Values and gradients are finite for weights of 0,
    which hard and sparse attention produce. Half-precision weights are summed in float32.

    Args:
        weights: attention, nonnegative; rows sum to 1, or to 0 if no key may be attended to.
        mask: True for the keys that count, broadcastable to the weights; all by default.

    Returns:
        Entropies; NaN for a row with a weight that is NaN.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    counts = ~(weights <= 0)  # NaN counts, or its entropy would be 0
    counts = counts if mask is None else counts & mask
    weights = weights.where(counts, 1.0)  # before the logarithm, whose gradient at 0 is infinite
    return -(weights * weights.log()).sum(-1)
