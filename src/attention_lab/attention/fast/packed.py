"""Sequences of different lengths as one list of rows, without padding, so that padding costs nothing.

The parts of a Transformer layer that act on each position separately (projections, norms, feed-forward) work
on rows `[N, d]`, N the number of real positions, as well as on `[B, L, d]`. Only attention depends on where
a sequence begins and ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attention_lab.argument_checks import check_number
from attention_lab.attention.masks import lengths_mask

SAVED = 2**12
"""The least padding, in numbers, at which packing pays off, and, per sequence, attending to each separately.

Below that, the calls cost more than they save.
"""
LONG = 2**14
"""Mean length times size from which on attending sequence by sequence saves more than it costs."""
SHARE = 1 / 10
"""Smallest share of padding at which shorter sequences are packed; below it, copying rows saves nothing."""


@dataclass(frozen=True, eq=False)
class Packing:
    """The layout of B sequences in rows `[N, d]` that hold all of them, one after the other.

    For example, a layer of self-attention in which the positions of three documents see only their own:

        layer(torch.cat([first, second, third]), packing=Packing.of_lengths([40, 7, 12]), causal=True)

    Attributes:
        mask: `[B, 1, L]`, True = real, of the padded batch of the sequences.
        rows: `[N]`, indices of the real positions in the flattened padded batch.
        lengths: lengths of the non-empty sequences, in order; their sum is N.
    """

    mask: Bool[Tensor, "B 1 L"]
    rows: Int[Tensor, " N"]
    lengths: tuple[int, ...]

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], device: torch.device | str | None = None) -> "Packing":
        """The packing of sequences that follow each other without padding.

        Args:
            lengths: their lengths, in order, as Python numbers, so that nothing has to be read from a GPU.
            device: the device of the rows.

        Raises:
            TypeError: the lengths are a tensor.
            LabError: a length is not a whole number of at least 0.
        """
        _check_lengths(lengths)
        mask = lengths_mask(torch.tensor(lengths, dtype=torch.int64), max(lengths, default=0))
        rows = mask.flatten().nonzero().squeeze(1)
        return cls(mask.to(device), rows.to(device), tuple(int(length) for length in lengths if length))

    def check_rows(self, x: Tensor, size: int) -> None:
        """Raise ValueError if there is not one row of this size for each position."""
        rows = sum(self.lengths)
        if x.shape != (rows, size):
            raise ValueError(
                f"the sequences of the packing have {rows} positions together: x must be [{rows}, {size}], "
                f"not {list(x.shape)}"
            )

    def attends_apart(self, size: int) -> bool:
        """Whether to attend sequence by sequence, without padding or a mask, to vectors of this size."""
        calls, rows = max(1, len(self.lengths)), sum(self.lengths)
        return rows * size >= LONG * calls or (self.mask.numel() - rows) * size >= SAVED * calls

    def pack(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "N d"]:
        """The real rows; all others get a gradient of zero."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Float[Tensor, "N d"]) -> Float[Tensor, "B L d"]:
        """The rows at their positions, zeros elsewhere."""
        batch, _, length = self.mask.shape
        padded = x.new_zeros(batch * length, x.shape[-1]).index_copy(0, self.rows, x)
        return padded.view(batch, length, x.shape[-1])

    def split(self, x: Float[Tensor, "N d"]) -> tuple[Shaped[Tensor, "1 n d"], ...]:
        """The rows of each sequence, as a batch of one."""
        return torch.split(x.unsqueeze(0), list(self.lengths), 1)


def _check_lengths(lengths: Any) -> None:
    if isinstance(lengths, Tensor):
        raise TypeError("Packing.of_lengths takes a list, not a Tensor: give lengths.tolist()")
    for length in lengths:
        check_number("Packing.of_lengths: a length", length, least=0, whole=True)


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
    packing = Packing(mask, mask.flatten().nonzero().squeeze(1), lengths)
    if not packing.attends_apart(size) and padding < SHARE * mask.numel():
        return None
    return packing
