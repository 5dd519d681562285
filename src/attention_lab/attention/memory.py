"""What queries attend to."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class Memory(NamedTuple):
    """What queries attend to: prepared once for a source by `Attention.remember`, then passed on.

    Attributes:
        keys: what the score has computed of the keys, `[..., K, f]`.
        value: `[..., K, dv]`.
        mask: boolean, broadcastable to `[..., Q, K]`, True = attend; None if all may be attended.
        causal: whether a query sees only the keys up to its own position.
    """

    keys: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool = False

    def select(self, index: Int[Tensor, " N"]) -> "Memory":
        """The memories of the examples `index`, as for the beams of a search."""
        mask = self.mask
        if (
            mask is not None and mask.dim() == self.keys.dim() and len(mask) > 1
        ):  # else it is the same for all
            mask = mask.index_select(0, index)
        return Memory(self.keys.index_select(0, index), self.value.index_select(0, index), mask, self.causal)

    def extend(self, more: "Memory") -> "Memory":
        """This memory with the keys and values of `more` after its own; neither may be masked."""
        if self.mask is not None or more.mask is not None:
            raise ValueError("a memory with a mask cannot be extended")
        keys, value = torch.cat([self.keys, more.keys], -2), torch.cat([self.value, more.value], -2)
        return Memory(keys, value, None, self.causal)
