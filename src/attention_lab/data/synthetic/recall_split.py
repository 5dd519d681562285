"""Examples of associative recall, stored without their filler and expanded batch by batch."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.data.reading.datasets import Split
from attention_lab.data.reading.vocabulary import SPECIALS, Vocabulary
from attention_lab.special_symbols import PAD

FILLER = "."
Numbers = npt.NDArray[np.int64]


class Drawn(NamedTuple):
    """N examples without their filler: `keys` and `values` [N, P], and `asked` [N, Q], the queried pairs."""

    keys: Numbers
    values: Numbers
    asked: Numbers

    def select(self, rows: npt.NDArray[np.bool_]) -> "Drawn":
        """Some of the examples."""
        return Drawn(*(field[rows] for field in self))

    def hashable(self) -> list[bytes]:
        """Each example as a hashable value."""
        return [row.tobytes() for row in np.concatenate(self, axis=1)]

    def join(self, other: "Drawn") -> "Drawn":
        """These examples, followed by the others."""
        return Drawn(*(np.concatenate(fields) for fields in zip(self, other, strict=True)))


class Layout(NamedTuple):
    """The layout of examples: `symbols` keys and as many values, and the position of the pairs.

    Token ids start at 4: filler, then the query `k?` of each key, then the pairs `k=v`.
    """

    symbols: int
    distance: int | None

    def vocabulary(self) -> Vocabulary:
        """All tokens in the order of their ids."""
        numbers = range(self.symbols)
        pairs = [f"k{key}={value}" for key in numbers for value in numbers]
        return Vocabulary([FILLER, *(f"k{key}?" for key in numbers), *pairs])

    def token_ids(self, drawn: Drawn, lengths: Tensor) -> Tensor:
        """Token ids [N, L] of sequences of `lengths` [N]: filler, pairs, filler, queries."""
        filler = len(SPECIALS)
        queries = torch.from_numpy(np.take_along_axis(drawn.keys, drawn.asked, axis=1)) + filler + 1
        pairs = torch.from_numpy(drawn.keys * self.symbols + drawn.values) + filler + 1 + self.symbols
        ends = lengths.unsqueeze(-1)
        steps = torch.arange(int(lengths.max()))
        tokens = torch.full([len(lengths), len(steps)], filler).masked_fill(steps >= ends, PAD)
        query_places = ends - queries.shape[1] + torch.arange(queries.shape[1])
        room = ends - queries.shape[1] - pairs.shape[1]
        starts = torch.zeros_like(room) if self.distance is None else (room - self.distance).clamp_min(0)
        tokens.scatter_(1, query_places, queries)
        return tokens.scatter_(1, starts + torch.arange(pairs.shape[1]), pairs)


class RecallSplit(Split):
    """Examples that are expanded when a batch is loaded, so that the filler of long ones takes no memory.

    Args:
        drawn: the examples.
        lengths: lengths of their sequences [N].
        layout: their layout.
    """

    def __init__(self, drawn: Drawn, lengths: Tensor, layout: Layout) -> None:
        self._drawn, self.lengths, self._layout = drawn, lengths, layout
        self._labels = torch.from_numpy(np.take_along_axis(drawn.values, drawn.asked, axis=1))

    def __getitem__(self, index: Tensor) -> ClassificationBatch:
        """The batch of rows `index` [B], padded to its own longest sequence; labels [B, Q]."""
        rows = Drawn(*(field[index.numpy()] for field in self._drawn))
        lengths = self.lengths[index]
        return ClassificationBatch(self._layout.token_ids(rows, lengths), lengths, self._labels[index])
