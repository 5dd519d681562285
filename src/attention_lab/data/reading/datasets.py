"""The splits of a data set in memory, as PyTorch's `Dataset`s."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from attention_lab.argument_checks import kind_of
from attention_lab.console_text import counted
from attention_lab.data.reading.batches import (
    Batch,
    ClassificationBatch,
    LanguageBatch,
    NodeBatch,
    RegressionBatch,
    TransductionBatch,
    Unseen,
)
from attention_lab.data.reading.codecs import NodeCodec
from attention_lab.data.reading.image_files import Images
from attention_lab.data.reading.ragged import Ragged, RaggedRows, RaggedVectors, all_finite
from attention_lab.errors import LabError

PROMPT = 32
"""Longest prompt in symbols, short enough to be shown in one line with its continuation."""


class Split(Dataset[Batch], ABC):
    """The training, validation or test examples of a data set, in memory.

    Indexing it with a tensor of rows gives a complete batch.

    Attributes:
        lengths: the length of each example [N], by which batches are formed.
    """

    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def __getitem__(self, index: Tensor) -> Batch:
        """The batch of rows `index` [B]."""


class RegressionSplit(Split):
    """Samples, stored as one batch."""

    def __init__(self, samples: RegressionBatch) -> None:
        self.samples = samples
        self.lengths = torch.ones(len(samples.inputs), dtype=torch.int64)

    def __getitem__(self, index: Tensor) -> RegressionBatch:
        """The batch of rows `index` [B]."""
        return RegressionBatch(*(field[index] for field in self.samples))


class TransductionSplit(Split):
    """Pairs of sequences of ids, or of images and sequences of ids.

    Args:
        sources: the source of each example, including `EOS`, or its image.
        targets: the target of each example, including `EOS`.
        references: the acceptable targets of each example.
        alignments: the gold source position of each target step, or empty.
        places: number of gold positions per step; if there are several, `alignments` lists them in a row.
        unseen: the symbols of each example that are not in the vocabulary.
        names: the name of each source in tables of errors; empty if its symbols are shown.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]] | Images,
        targets: Sequence[Sequence[int]],
        references: Sequence[Sequence[Sequence[int]]],
        alignments: Sequence[Sequence[int]],
        places: int = 1,
        unseen: Sequence[Unseen] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.names = names
        self._source = sources if isinstance(sources, Images) else Ragged(sources)
        self._target = Ragged(targets)
        self._alignment, self._places = Ragged(alignments, padding=-1), places
        # Reference 0 is empty and fills the unused slots of an example.
        self._references = Ragged([[], *(row for rows in references for row in rows)])
        ends = list(accumulate(map(len, references), initial=1))
        self._slots = Ragged([range(*bounds) for bounds in pairwise(ends)], padding=0)
        self.lengths = self._source.lengths + self._target.lengths
        self._unseen = unseen if any(one.source or any(one.references) for one in unseen) else ()

    def __getitem__(self, index: Tensor) -> TransductionBatch:
        """The batch of rows `index` [B], padded to its own longest sequences."""
        target = self._target[index]
        alignment = self._alignment.padded(index, target.shape[1] * self._places)
        if self._places > 1:
            alignment = alignment.view(*target.shape, self._places)
        return TransductionBatch(
            source=self._source[index],
            source_lengths=self._source.lengths[index],
            target=target,
            target_lengths=self._target.lengths[index],
            references=self._references[self._slots[index]],
            alignment=alignment,
            unseen=tuple(self._unseen[row] for row in index.tolist()) if self._unseen else (),
        )


class ClassificationSplit(Split):
    """Labelled sequences.

    Args:
        inputs: the sequences: of token ids (`Ragged`), of vectors (`RaggedVectors`), or of equally many
            vectors [N, L, d].
        labels: the number of the class of each [N], or of each of its answers [N, A].
        texts: the original texts, if examples are displayed as text; None or empty if not.

    Raises:
        LabError: inputs, labels or texts are of another kind, there are not as many labels or texts as
            sequences, or the vectors have another number of dimensions.
    """

    def __init__(
        self,
        inputs: Ragged | RaggedVectors | Tensor,
        labels: Sequence[int] | Tensor | np.ndarray,
        texts: Sequence[str] | None = (),
    ) -> None:
        self.inputs: Ragged | RaggedVectors | Tensor
        if isinstance(inputs, Ragged | RaggedVectors):
            self.inputs, self.lengths = inputs, inputs.lengths
        elif not isinstance(inputs, Tensor):
            raise LabError(
                "ClassificationSplit needs a tensor [N, L, d], RaggedVectors, or a Ragged of ids, not "
                f"{kind_of(inputs)}"
            )
        elif inputs.dim() != 3:
            raise LabError(f"ClassificationSplit needs vectors [N, L, d], not a tensor {list(inputs.shape)}")
        else:
            self.inputs, self.lengths = inputs.detach().float(), torch.full(inputs.shape[:1], inputs.shape[1])
        self._texts = () if texts is None else tuple(texts)
        if isinstance(texts, str) or not all(isinstance(one, str) for one in self._texts):
            raise LabError("ClassificationSplit needs a list of texts, one for each sequence, or None")
        try:  # a pandas column has its own row labels
            given: Tensor | None = torch.as_tensor(
                labels if isinstance(labels, Tensor | np.ndarray) else list(labels)
            )
        except (TypeError, ValueError, RuntimeError):  # texts, for instance
            given = None
        if given is None or not given.dim() or bool((given != given.long()).any()):
            raise LabError("ClassificationSplit needs class numbers as labels, such as codec.label gives")
        self.labels = given.long()
        count = len(self.lengths)
        for noun, other in (("label", len(self.labels)), ("text", len(self._texts) or count)):
            if other != count:
                raise LabError(
                    f"ClassificationSplit has {counted(count, 'sequence')}, but {counted(other, noun)}"
                )

    @property
    def is_finite(self) -> bool:
        """Whether no input is infinite or NaN."""
        return self.inputs.is_finite if isinstance(self.inputs, RaggedRows) else all_finite(self.inputs)

    def __getitem__(self, index: Tensor) -> ClassificationBatch:
        """The batch of rows `index` [B], padded to its own longest sequence."""
        texts = tuple(self._texts[row] for row in index.tolist()) if self._texts else ()
        return ClassificationBatch(self.inputs[index], self.lengths[index], self.labels[index], texts)


class LanguageSplit(Split):
    """Sequences of ids that start with `BOS`.

    Prompts grow within a batch: of B examples, example b has b/B of its first symbols as the prompt. At most
    `PROMPT` symbols, or all of a shorter example, count for this.
    """

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._tokens = Ragged(rows)
        self.lengths = self._tokens.lengths

    def __getitem__(self, index: Tensor) -> LanguageBatch:
        """The batch of rows `index` [B], padded to its own longest sequence."""
        lengths = self.lengths[index]
        prompts = 1 + (lengths - 1).clamp(max=PROMPT) * torch.arange(len(index)) // len(index)
        return LanguageBatch(self._tokens[index], lengths, prompts, index)


class NodeSplit(Split):
    """The labelled nodes of one split.

    Args:
        codec: the graph.
        nodes: numbers of the nodes.
        labels: classes of the nodes.
    """

    def __init__(self, codec: NodeCodec, nodes: Sequence[int], labels: Sequence[int]) -> None:
        self._codec = codec
        self._nodes = torch.tensor(nodes, dtype=torch.int64)
        self._labels = torch.tensor(labels, dtype=torch.int64)
        self.lengths = torch.ones_like(self._nodes)

    def __getitem__(self, index: Tensor) -> NodeBatch:
        """The graph, with the nodes of rows `index` [B] to classify."""
        return self._codec.batch(self._nodes[index], self._labels[index])
