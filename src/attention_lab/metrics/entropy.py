"""How spread out attention is."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lab.metrics.fractions import Fraction


def attention_entropy(
    weights: Float[Tensor, "*rows K"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows"]:
    r"""Shannon entropy of each row of weights, in nats.

    .. math:: -\sum_k \alpha_k \ln \alpha_k, \qquad 0 \ln 0 = 0

    From 0 (one key has it all) to ln K (uniform). Values and gradients are finite for weights of 0, which
    hard and sparse attention give. Half precision is summed in float32.

    Args:
        weights: attention, nonnegative; rows that sum to 1, or to 0 where no key may be attended.
        mask: True for the keys that count, broadcastable to the weights; all by default.

    Returns:
        Entropies.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    counts = weights > 0 if mask is None else (weights > 0) & mask
    weights = weights.where(counts, 1.0)  # before the logarithm, whose gradient at 0 is infinite
    return -(weights * weights.log()).sum(-1)


class AttentionEntropy(Fraction):
    """Mean entropy of each head's rows, in nats.

    Args:
        heads: number of heads, each with a value of its own.
    """

    def update(self, weights: Float[Tensor, "B H Q K"], mask: Bool[Tensor, "B Q"] | None = None) -> None:
        """Count a batch.

        Args:
            weights: attention of each head.
            mask: True for the rows that count, e.g. not padding; all by default.

        Raises:
            ValueError: another number of heads than announced.
        """
        self.check_heads(weights)
        batch, _, queries, _ = weights.shape
        if mask is None:
            mask = torch.ones(batch, queries, dtype=torch.bool, device=weights.device)
        entropy = attention_entropy(weights.detach()).masked_fill(~mask.unsqueeze(1), 0.0)
        self.numerator += entropy.sum((0, 2))
        self.denominator += mask.sum()
