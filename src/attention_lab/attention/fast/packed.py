"""The real positions of a padded batch as one list of rows, so that padding costs nothing.

The parts of a Transformer layer that act on each position separately (projections, norms, feed-forward) work
on rows `[N, d]`, N the number of real positions, as well as on `[B, L, d]`. Only attention depends on where
a sequence begins and ends.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

SAVED = 2**12
"""The fewest padding entries of `[B, L, d]` for packing; below that, the calls cost more than they save."""
LONG = 2**14
"""Mean length times size from which attention runs sequence by sequence, which saves more than it costs."""
SHARE = 1 / 10
"""Smallest share of padding for shorter sequences; below that, copying rows costs what it saves."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Where the real positions of a batch `[B, L]` are.

    Attributes:
        mask: `[B, 1, L]`, True = real.
        rows: `[N]`, indices of the real positions in the flattened batch.
        lengths: lengths of the non-empty sequences, in order; their sum is N.
        apart: whether to attend sequence by sequence, without padding or a mask.
    """

    mask: Bool[Tensor, "B 1 L"]
    rows: Int[Tensor, " N"]
    lengths: tuple[int, ...]
    apart: bool

    def pack(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "N d"]:
        """The real rows; all others get a gradient of zero."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "B L d"]:
        """The rows at their positions, zeros elsewhere."""
        batch, _, length = self.mask.shape
        places = x.new_zeros(batch * length, x.shape[-1]).index_copy(0, self.rows, x)
        return places.view(batch, length, -1)

    def split(self, x: Float[Tensor, "N d"]) -> tuple[Shaped[Tensor, "1 n d"], ...]:
        """The rows of each sequence, as a batch of one."""
        return torch.split(x.unsqueeze(0), list(self.lengths), 1)


def make_packing(mask: Bool[Tensor, "B 1 L"], size: int) -> Packing | None:
    """The packing of a batch of vectors of this size; None if it would not pay off.

    The number of real positions must be known here. So nothing is packed on a GPU, where that would force a
    synchronisation, and nothing in compiled code, whose shapes must not depend on values.
    """
    if mask.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    lengths = tuple(length for length in mask.sum((1, 2)).tolist() if length)
    padding = mask.numel() - sum(lengths)
    if not lengths or padding * size < SAVED:
        return None
    apart = sum(lengths) * size >= LONG * len(lengths)
    if not apart and padding < SHARE * mask.numel():
        return None
    return Packing(mask, mask.flatten().nonzero().squeeze(1), lengths, apart)
