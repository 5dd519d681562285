"""The score of each test example, and intervals of the error rates."""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.metrics import bootstrap_interval, nearest, sequence_lengths
from attention_lab.sizes import PAD

T = TypeVar("T")


class ScoredExample(NamedTuple):
    """One example: the output and the nearest reference.

    Attributes:
        source: the input as text.
        output: ids of the output, without the end symbol.
        reference: ids of the nearest reference, without the end symbol.
        edits: the edit distance between both.
        unseen: the symbols of the reference that are not in the vocabulary, in order.
    """

    source: str
    output: list[int]
    reference: list[int]
    edits: int
    unseen: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Edits per symbol of the reference."""
        return self.edits / max(len(self.reference), 1)


def score_examples(sources: Sequence[str], outputs: Tensor, batch: TransductionBatch) -> list[ScoredExample]:
    """Score the `outputs` `[B, T]` for a batch, whose examples have at least one reference each.

    Args:
        sources: the texts of the sources.
        outputs: ids.
        batch: the batch.
    """
    references = batch.references
    found = nearest(outputs, references)
    chosen = references[torch.arange(len(references), device=references.device), found.slot]
    sides = (
        [row[:length] for row, length in zip(ids.tolist(), sequence_lengths(ids).tolist(), strict=True)]
        for ids in (outputs, chosen)
    )
    unseen = (
        one.references[slot] if one.references else ()
        for one, slot in zip(batch.every_unseen, found.slot.tolist(), strict=True)
    )
    rows = zip(sources, *sides, found.distance.tolist(), unseen, strict=True)
    return [ScoredExample(*fields) for fields in rows]


def decoded_texts(
    decode: Callable[[Tensor], str], outputs: Tensor, references: Tensor
) -> list[tuple[str, list[str]]]:
    """The text of each output `[B, T]`, and those of its references `[B, R, U]`."""
    return [
        (decode(ids), [decode(one) for one in slots if int(one[0]) != PAD])
        for ids, slots in zip(outputs.cpu(), references.cpu(), strict=True)
    ]


def gather_examples(batches: list[list[T]]) -> list[T]:
    """The examples of all processes, in the order in which a single process would test them.

    Batches are dealt to the processes in turn.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return list(chain.from_iterable(batches))
    everyones: list[list[list[T]]] = [[] for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(everyones, batches)
    rounds = zip_longest(*everyones, fillvalue=())
    return [one for batch in chain.from_iterable(rounds) for one in batch]


def error_rate_intervals(judged: Sequence[ScoredExample]) -> dict[str, float]:
    """95% intervals of both error rates (see `bootstrap_interval`); empty without examples."""
    if not judged:
        return {}
    edits = np.array([one.edits for one in judged], dtype=np.int64)
    lengths = np.array([len(one.reference) for one in judged], dtype=np.int64)
    rates = {
        "sequence_error_rate": bootstrap_interval((edits > 0).astype(np.int64), np.ones_like(edits)),
        "token_error_rate": bootstrap_interval(edits, lengths),
    }
    return {f"{name}_{end}": getattr(rates[name], end) for name in rates for end in ("low", "high")}
