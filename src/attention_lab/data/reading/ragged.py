"""Sequences of different lengths in one flat tensor: of whole numbers, or of vectors."""

import operator
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.errors import LabError, first_line
from attention_lab.special_symbols import PAD


class RaggedRows:
    """Rows of different lengths; indexing pads them to the longest row selected.

    Args:
        values: the values of all rows [.., *d], then the padding [*d].
        lengths: the length of each row [N].

    Attributes:
        lengths: the length of each row [N].
    """

    def __init__(self, values: Tensor, lengths: Sequence[int]) -> None:
        self.lengths = torch.tensor(lengths, dtype=torch.int64)
        self._starts = self.lengths.cumsum(0) - self.lengths
        self._values = values

    @property
    def is_finite(self) -> bool:
        """Whether no number is infinite or NaN."""
        return all_finite(self._values)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Rows `index` [..] as [.., L, *d], L their largest length."""
        return self.padded(index, int(self.lengths[index].max()))

    def padded(self, index: Tensor, width: int) -> Tensor:
        """Rows `index` [..] as [.., width, *d]."""
        steps = torch.arange(width)
        inside = steps < self.lengths[index].unsqueeze(-1)
        # Steps beyond the end of a row read the padding, at index -1.
        return self._values[(self._starts[index].unsqueeze(-1) + steps).where(inside, -1)]


class Ragged(RaggedRows):
    """Rows of integers, padded with `padding`.

    Raises:
        LabError: a row is anything else.
    """

    def __init__(self, rows: Sequence[Sequence[int]], padding: int = PAD) -> None:
        try:
            lengths = list(map(len, rows))
            # NumPy would truncate numbers and read digits in texts; `index` takes whole numbers alone.
            values = map(operator.index, chain(chain.from_iterable(rows), [padding]))
            super().__init__(torch.from_numpy(np.fromiter(values, np.int64, sum(lengths) + 1)), lengths)
        except (TypeError, ValueError, OverflowError) as error:
            raise LabError(f"Ragged needs rows of whole numbers: {first_line(error)}") from None

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value in any row, or the padding."""
        return int(self._values.min()), int(self._values.max())


class RaggedVectors(RaggedRows):
    """Sequences of vectors, tensors [L, d] with any L and the same d; in float32, padded with zeros.

    Raises:
        LabError: a row is anything else.
    """

    def __init__(self, rows: Sequence[Tensor]) -> None:
        rows = list(rows)  # they may come from a generator
        check_sequences(rows, "RaggedVectors")
        padding = torch.zeros(1, rows[0].shape[1] if len(rows) else 0)
        super().__init__(
            torch.cat([*(row.detach().float() for row in rows), padding]), [len(row) for row in rows]
        )

    @property
    def features(self) -> int:
        """The numbers in a vector, d."""
        return self._values.shape[1]


def all_finite(values: Tensor) -> bool:
    """Whether no number is infinite or NaN."""
    return bool(values.isfinite().all())


def check_sequences(rows: Sequence[Tensor], name: str) -> None:
    """Raise LabError, naming what needs them, unless all rows are tensors [L, d] with the same d."""
    for row in rows:
        found = list(row.shape) if isinstance(row, Tensor) else kind_of(row)
        if not isinstance(row, Tensor) or row.dim() != 2 or row.shape[1] != rows[0].shape[1]:
            raise LabError(f"{name} needs tensors [L, d] with the same d, not {found}")
