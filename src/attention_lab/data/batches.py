"""What a loader yields. Named tuples of tensors: Lightning moves them across devices as they are.

Shapes: B examples, d features, o targets, S source steps, T target steps, R references, L steps.
Padding is `PAD`; lengths count the end symbol `EOS` where there is one.
"""

from typing import NamedTuple

from torch import Tensor


class RegressionBatch(NamedTuple):
    """`inputs` [B, d] and `targets` [B, o] in float32, and `index` [B].

    `index` is the row of the sample in the training set, which attention then leaves out, or -1.
    """

    inputs: Tensor
    targets: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


class TransductionBatch(NamedTuple):
    """Source and target sequences; all int64, each sequence ends in `EOS`.

    `source` [B, S], `source_lengths` [B], `target` [B, T], `target_lengths` [B];
    `references` [B, R, T']: every acceptable output (an unused slot is all `PAD`);
    `alignment` [B, T]: the gold source position of each target step, -1 where there is none.
    """

    source: Tensor
    source_lengths: Tensor
    target: Tensor
    target_lengths: Tensor
    references: Tensor
    alignment: Tensor


class ClassificationBatch(NamedTuple):
    """`inputs` [B, L] token ids or [B, L, d] float32 vectors, `lengths` [B] and `labels` [B]."""

    inputs: Tensor
    lengths: Tensor
    labels: Tensor


Batch = RegressionBatch | TransductionBatch | ClassificationBatch
