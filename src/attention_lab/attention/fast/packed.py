"""The real positions of a padded batch as one list of rows: padding then costs nothing.

All that a Transformer's layer does to each position by itself (projections, norms, feed-forward) it can do to
rows `[N, d]`, N the number of real positions, as well as to `[B, L, d]`. Attention alone must know where a
sequence begins and ends.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

SAVED = 2**12
"""Least numbers of padding, in `[B, L, d]`; below it the calls take longer than the work they save."""
LONG = 2**14
"""Mean length times size from which each sequence is attended alone: it saves more than its calls take."""
SHARE = 1 / 10
"""Least part of padding among shorter ones: below it, copying rows takes what they save."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Where the real positions of a batch `[B, L]` stand.

    Attributes:
        mask: `[B, 1, L]`, True = real.
        rows: `[N]`, their places in the flattened batch.
        lengths: of the sequences that have any, in order; their sum is N.
        apart: whether attention is to be done sequence by sequence, without padding and mask.
    """

    mask: Bool[Tensor, "B 1 L"]
    rows: Int[Tensor, " N"]
    lengths: tuple[int, ...]
    apart: bool

    def pack(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "N d"]:
        """The real rows; whatever the others hold, they get a gradient of zero."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "B L d"]:
        """The rows in their places, zeros elsewhere."""
        batch, _, length = self.mask.shape
        places = x.new_zeros(batch * length, x.shape[-1]).index_copy(0, self.rows, x)
        return places.view(batch, length, -1)

    def split(self, x: Float[Tensor, "N d"]) -> tuple[Shaped[Tensor, "1 n d"], ...]:
        """The rows of each sequence, as a batch of one."""
        return torch.split(x.unsqueeze(0), list(self.lengths), 1)


def make_packing(mask: Bool[Tensor, "B 1 L"], size: int) -> Packing | None:
    """The packing of a batch of vectors of some size; None if it would not pay.

    How many positions are real must be known here, for which a GPU would have to be waited for: there, as in
    compiled code, whose shapes must not depend on values, nothing is packed.
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
