"""The batches that loaders yield: named tuples of tensors or texts, which Lightning moves to a device.

Shapes: B examples, d features, o targets, S source steps, T target steps, R references, L steps; H x W
pixels.
Padding is `PAD`; lengths count the end symbol `EOS` where there is one.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attention_lab.special_symbols import EOS


class RegressionBatch(NamedTuple):
    """`inputs` [B, d] and `targets` [B, o] in float32, and `index` [B].

    `index` is the row of the sample in the training set, which attention leaves out; -1 if there is none.
    """

    inputs: Tensor
    targets: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


class Unseen(NamedTuple):
    """The symbols of an example that are not in the vocabularies, in order, so that its texts can be shown.

    Attributes:
        source: symbols of the source.
        references: symbols of each reference.
        copyable: symbols of the source that can be copied: all but tags.
    """

    source: tuple[str, ...] = ()
    references: tuple[tuple[str, ...], ...] = ()
    copyable: tuple[str, ...] = ()

    @property
    def target(self) -> tuple[str, ...]:
        """Symbols of the first reference, which is the target."""
        return self.references[0] if self.references else ()


class TransductionBatch(NamedTuple):
    """Source and target sequences; all int64, each sequence ends in `EOS`.

    `source` [B, S], `source_lengths` [B], `target` [B, T], `target_lengths` [B];
    for images, `source` [B, H, W] is ink from 0 to 1 in float32, and `source_lengths` their widths;
    `references` [B, R, T']: every acceptable output (an unused slot is all `PAD`);
    `alignment` [B, T]: the gold source position of each target step, -1 if it has none;
    [B, T, G] if a step has up to G gold positions, all of them correct;
    `unseen`: for each example, its symbols that are not in the vocabulary; empty if no example has any.
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    references: Tensor
    alignment: Tensor
    unseen: tuple[Unseen, ...] = ()

    @property
    def every_unseen(self) -> tuple[Unseen, ...]:
        """`unseen`, with an entry for each example even if all are empty."""
        return self.unseen or (Unseen(),) * len(self.source)


def unlabelled(source: Tensor, lengths: Tensor, unseen: tuple[Unseen, ...] = ()) -> TransductionBatch:
    """A batch of sources only: the target is `EOS`, without references or alignment."""
    examples = len(lengths)
    return TransductionBatch(
        source=source,
        source_lengths=lengths,
        target=torch.full([examples, 1], EOS),
        target_lengths=torch.ones(examples, dtype=torch.int64),
        references=torch.zeros(examples, 0, 1, dtype=torch.int64),
        alignment=torch.full([examples, 1], -1),
        unseen=unseen,
    )


class ClassificationBatch(NamedTuple):
    """`inputs` [B, L] token ids or [B, L, d] float32 vectors, `lengths` [B] and `labels` [B].

    `labels` is [B, A] if each of the last A positions has its own label.
    `texts`: the original texts, if examples are texts, because ids cannot show unknown words.
    """

    inputs: Tensor
    lengths: Tensor
    labels: Tensor
    texts: tuple[str, ...] = ()


class NodeBatch(NamedTuple):
    """One graph of N nodes, and the B nodes to classify.

    `features` [N, d] in float32; `edges` [2, E], pairs of nodes; `nodes` [B], the nodes to classify, and
    their `labels` [B], -1 if unknown.
    """

    features: Tensor
    edges: Tensor
    nodes: Tensor
    labels: Tensor


class LanguageBatch(NamedTuple):
    """Sequences of symbols; all int64, each starts with `BOS` and ends with `EOS`, unless it is open-ended.

    `tokens` [B, L], `lengths` [B]; `prompts` [B]: the number of leading tokens that are the prompt in
    generation; `numbers` [B]: the number of each example, which seeds its random samples.
    """

    tokens: Tensor
    lengths: Tensor
    prompts: Tensor
    numbers: Tensor


Batch = RegressionBatch | TransductionBatch | ClassificationBatch | NodeBatch | LanguageBatch
