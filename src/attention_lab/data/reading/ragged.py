"""Rows of different lengths in one flat tensor."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from attention_lab.errors import LabError, first_line
from attention_lab.special_symbols import PAD


class Ragged:
    """Integer rows of different lengths; indexing pads them to the longest row selected.

    Attributes:
        lengths: the length of each row [N].

    Raises:
        LabError: a row is anything else.
    """

    def __init__(self, rows: Sequence[Sequence[int]], padding: int = PAD) -> None:
        try:
            self._fill(rows, padding)
        except (TypeError, ValueError) as error:
            raise LabError(f"Ragged needs rows of whole numbers: {first_line(error)}") from None

    def _fill(self, rows: Sequence[Sequence[int]], padding: int) -> None:
        self.lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        self._starts = self.lengths.cumsum(0) - self.lengths
        # The last value is the padding; steps beyond the end of a row read it at index -1.
        values, count = chain(chain.from_iterable(rows), [padding]), int(self.lengths.sum()) + 1
        self._values = torch.from_numpy(np.fromiter(values, np.int64, count))

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value in any row, or the padding."""
        return int(self._values.min()), int(self._values.max())

    def __getitem__(self, index: Tensor) -> Tensor:
        """Rows `index` [..] as [.., L], L their largest length."""
        return self.padded(index, int(self.lengths[index].max()))

    def padded(self, index: Tensor, width: int) -> Tensor:
        """Rows `index` [..] as [.., width]."""
        steps = torch.arange(width)
        inside = steps < self.lengths[index].unsqueeze(-1)
        return self._values[(self._starts[index].unsqueeze(-1) + steps).where(inside, -1)]
