"""Error rates: distances between decoded sequences and the nearest acceptable one."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from attention_lab.metrics.fractions import Counts
from attention_lab.special_symbols import EOS, PAD


def sequence_lengths(ids: Int[Tensor, "*N T"]) -> Int[Tensor, "*N"]:
    """Number of symbols before the first EOS; without an EOS, up to the last symbol that is not PAD."""
    positions = torch.arange(1, ids.shape[-1] + 1, device=ids.device)
    ended = (ids == EOS).cumsum(-1) > 0
    # with an EOS every symbol before it counts, even PAD: a model may emit it, which is an error
    counts = ~ended & ((ids != PAD) | ended[..., -1:])
    return F.pad(positions * counts, (1, 0)).amax(-1)


def edit_distance(
    first: Int[Tensor, "*N S"],
    first_lengths: Int[Tensor, "*N"],
    second: Int[Tensor, "*N T"],
    second_lengths: Int[Tensor, "*N"],
) -> Int[Tensor, "*N"]:
    """Levenshtein distance of many pairs at once: insertions, deletions and substitutions.

        D_{i,j} = min(D_{i-1,j} + 1, D_{i,j-1} + 1, D_{i-1,j-1} + [a_i != b_j])

    (Wagner & Fischer 1974, "The string-to-string correction problem"). The table is computed row by row;
    within a row the insertions are a running minimum of `D_{i,j} - j`, so a row takes a few
    tensor operations for the entire batch. The result is exact, unlike that of
    `torchmetrics.functional.text.edit_distance`, which searches only a band of 25 cells around the diagonal.

    Args:
        first: ids; anything beyond the length is ignored.
        first_lengths: number of ids to compare.
        second: ids to compare with.
        second_lengths: number of ids to compare.

    Returns:
        Distances.
    """
    column = torch.arange(second.shape[-1] + 1, device=second.device)
    row = column.expand(*second.shape[:-1], -1)
    for i in range(first.shape[-1]):
        substituted = row[..., :-1] + (first[..., i : i + 1] != second)
        deleted = row + 1
        best = torch.cat([deleted[..., :1], torch.minimum(deleted[..., 1:], substituted)], -1)
        best = (best - column).cummin(-1).values + column
        row = torch.where((i < first_lengths).unsqueeze(-1), best, row)
    return row.gather(-1, second_lengths.unsqueeze(-1)).squeeze(-1)


class Nearest(NamedTuple):
    """For each example, the nearest reference and the distance to it.

    If several references have the smallest distance, the first counts. Without a reference, all numbers are
    0.

    Attributes:
        distance: number of edits between the output and the nearest reference.
        length: number of symbols of that reference, without EOS.
        slot: index of that reference.
        has_reference: whether there is a reference.
    """

    distance: Int[Tensor, " B"]
    length: Int[Tensor, " B"]
    slot: Int[Tensor, " B"]
    has_reference: Bool[Tensor, " B"]


def nearest(predictions: Int[Tensor, "B T"], references: Int[Tensor, "B R U"]) -> Nearest:
    """The nearest reference of each prediction.

    Args:
        predictions: ids; everything after the first EOS is ignored.
        references: every acceptable output, each ending in EOS and padded; a slot of only PAD is unused.
    """
    used = (references != PAD).any(-1)
    has_reference = used.any(-1)
    if used.shape[1] == 0:
        nothing = torch.zeros_like(has_reference, dtype=torch.int64)
        return Nearest(nothing, nothing, nothing, has_reference)
    rows, slots = _compared(used)
    predicted, kept = predictions[rows], references[rows, slots]
    lengths, found = (torch.zeros_like(used, dtype=torch.int64) for _ in range(2))
    lengths[rows, slots] = of_kept = sequence_lengths(kept)
    found[rows, slots] = edit_distance(predicted, sequence_lengths(predicted), kept, of_kept)
    beyond = predictions.shape[1] + references.shape[2] + 1
    distance, slot = found.masked_fill(~used, beyond).min(1)
    length = lengths.gather(1, slot.unsqueeze(1)).squeeze(1)
    return Nearest(distance * has_reference, length * has_reference, slot * has_reference, has_reference)


def _compared(used: Bool[Tensor, "B R"]) -> tuple[Tensor, ...]:
    """Rows and slots of the references that exist; on a GPU all, as finding them would synchronise."""
    if used.device.type == "cpu":
        return used.nonzero(as_tuple=True)
    rows, slots = (torch.arange(size, device=used.device) for size in used.shape)
    return rows.repeat_interleave(len(slots)), slots.repeat(len(rows))


def _as_nearest(predictions: Tensor | Nearest, references: Tensor | None) -> Nearest:
    """The nearest references, if they are not what is given already."""
    if isinstance(predictions, Nearest):
        return predictions
    assert references is not None
    return nearest(predictions, references)


class SequenceErrorRate(Counts):
    """Fraction of the predictions that equal none of their references.

    For pronunciations of words, this is the word error rate (WER). Examples without a reference are not
    counted.
    """

    higher_is_better = False

    def update(
        self, predictions: Int[Tensor, "B T"] | Nearest, references: Int[Tensor, "B R U"] | None = None
    ) -> None:
        """Count a batch; see `nearest`, whose result may be given instead, to share it between metrics."""
        found = _as_nearest(predictions, references)
        self.numerator += (found.distance > 0).sum()
        self.denominator += found.has_reference.sum()


class TokenErrorRate(Counts):
    """Sum of edit distances to the nearest references, divided by the sum of their lengths, without EOS.

    If several references have the smallest distance, the first counts. The value may exceed 1. If the symbols
    are phonemes, this is the phoneme error rate (PER). Examples without a reference are not counted.
    """

    higher_is_better = False

    def update(
        self, predictions: Int[Tensor, "B T"] | Nearest, references: Int[Tensor, "B R U"] | None = None
    ) -> None:
        """Count a batch; see `nearest`, whose result may be given instead, to share it between metrics."""
        found = _as_nearest(predictions, references)
        self.numerator += found.distance.sum()
        self.denominator += found.length.sum()
