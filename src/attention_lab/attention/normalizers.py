"""Normalisers: from scores to weights, the one place where a mask meets a softmax."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.errors import LabError


def masked_softmax(
    scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None, temperature: float = 1.0
) -> Float[Tensor, "... Q K"]:
    """Softmax over the keys that the mask keeps: `exp(s_i / T) / sum_j exp(s_j / T)`.

    A key whose score is -inf (outside the support of a compact kernel) counts as masked. A row
    with no key left is all zeros, in value and in gradient, never NaN.

    Args:
        scores: `[..., Q, K]`; half precision is normalised in float32 and returned as it came.
        mask: boolean, broadcastable to the scores, True = attend.
        temperature: T; a larger T gives flatter weights.
    """
    if temperature != 1.0:
        scores = scores / temperature
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    empty = scores.detach().amax(-1, keepdim=True) == -torch.inf
    # An empty row is replaced before the softmax, or its NaN would come back through the gradient.
    working = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1, dtype=working).masked_fill(empty, 0.0)
    return weights.to(scores.dtype)


@runtime_checkable
class Normalizer(Protocol):
    """Turns scores `[..., Q, K]` into weights >= 0 of the same shape, zero wherever masked."""

    @property
    def scale(self) -> float | None:
        """The factor on the scores if this is a plain softmax, which fused kernels compute; else None."""

    def __call__(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Weights for the scores under a boolean mask, True = attend."""


class Softmax(nn.Module):
    """`softmax(scores / temperature)` over unmasked keys; see `masked_softmax`."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise LabError(f"normalizer.temperature must be above 0, got {temperature}")
        self.temperature = temperature

    @property
    def scale(self) -> float | None:
        """1 / T: a softmax is what the fused kernels compute."""
        return 1.0 / self.temperature

    def forward(
        self, scores: Float[Tensor, "... Q K"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... Q K"]:
        """Weights, summing to one in every row that has a key."""
        return masked_softmax(scores, mask, self.temperature)
