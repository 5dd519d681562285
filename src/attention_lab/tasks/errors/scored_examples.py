"""The scores of all test examples, and confidence intervals of the error rates."""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.data.reading.vocabulary import Vocabulary
from attention_lab.distributed import gather_from_processes
from attention_lab.metrics import Nearest, bootstrap_interval, sequence_lengths
from attention_lab.special_symbols import PAD, UNK

T = TypeVar("T")


class ScoredExample(NamedTuple):
    """One example: the output, the nearest reference, and the edits between them.

    Attributes:
        source: the input as text.
        output: ids of the output, without the end symbol.
        reference: ids of the nearest reference, without the end symbol.
        edits: the edit distance between the two.
        unseen: the symbols of the reference that are not in the vocabulary, in order.
        copyable: the symbols of the source that are not in the vocabulary, in order; the unknown symbols of
            the output are copies of these.
    """

    source: str
    output: list[int]
    reference: list[int]
    edits: int
    unseen: tuple[str, ...] = ()
    copyable: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """All symbols of reference and source that are not in the vocabulary."""
        return self.unseen + self.copyable

    @property
    def rate(self) -> float:
        """Edits per symbol of the reference."""
        return self.edits / max(len(self.reference), 1)


def score_examples(
    sources: Sequence[str], outputs: Tensor, batch: TransductionBatch, found: Nearest
) -> list[ScoredExample]:
    """Score the `outputs` `[B, T]` for a batch, whose examples have at least one reference each.

    Args:
        sources: the texts of the sources.
        outputs: ids.
        batch: the batch.
        found: the nearest reference of each output.
    """
    references = batch.references
    chosen = references[torch.arange(len(references), device=references.device), found.slot]
    sides = (
        [row[:length] for row, length in zip(ids.tolist(), sequence_lengths(ids).tolist(), strict=True)]
        for ids in (outputs, chosen)
    )
    everything, slots = batch.every_unseen, found.slot.tolist()
    unseen = (
        one.references[slot] if one.references else () for one, slot in zip(everything, slots, strict=True)
    )
    copyable = (one.copyable for one in everything)
    rows = zip(sources, *sides, found.distance.tolist(), unseen, copyable, strict=True)
    return [ScoredExample(*fields) for fields in rows]


def comparable_ids(
    outputs: Tensor, batch: TransductionBatch, vocabulary: Vocabulary
) -> tuple[Tensor, Tensor]:
    """The ids of outputs `[B, T]` and of the batch's references, in which equal ids mean equal symbols.

    A symbol that is not in the vocabulary gets an id beyond it. The unknown symbols of an output are copies
    of those of its source, in order. Any beyond these stay `UNK`, which matches nothing in the references.
    """
    symbols = {
        symbol for one in batch.unseen for symbol in chain(one.copyable, chain.from_iterable(one.references))
    }
    if not symbols:
        return outputs, batch.references
    extended = vocabulary.extended(symbols)
    hypotheses, references = [], []
    for ids, slots, one in zip(outputs.tolist(), batch.references.tolist(), batch.unseen, strict=True):
        hypotheses.append(with_unseen(ids, one.copyable, extended))
        unseen = (*one.references, *[()] * len(slots))
        references.append(
            [with_unseen(slot, own, extended) for slot, own in zip(slots, unseen, strict=False)]
        )
    return outputs.new_tensor(hypotheses), batch.references.new_tensor(references).view_as(batch.references)


def with_unseen(ids: Sequence[int], unseen: Sequence[str], extended: Vocabulary) -> list[int]:
    """Replace each `UNK` by the id of the next `unseen` symbol, as long as there are any."""
    own = iter(extended.ids(unseen))
    return [next(own, UNK) if number == UNK else number for number in ids]


def decoded_texts(
    decode: Callable[[Tensor, Sequence[str]], str], outputs: Tensor, batch: TransductionBatch
) -> list[tuple[str, list[str]]]:
    """The text of each output `[B, T]`, and the texts of its references."""
    texts = []
    for ids, slots, one in zip(outputs.cpu(), batch.references.cpu(), batch.every_unseen, strict=True):
        unseen = one.references or ((),) * len(slots)
        used = [slot for slot in slots if int(slot[0]) != PAD]
        references = [decode(slot, symbols) for slot, symbols in zip(used, unseen, strict=False)]
        texts.append((decode(ids, one.copyable), references))
    return texts


def gather_examples(batches: list[list[T]]) -> list[T]:
    """The examples of all processes, in the order in which a single process would test them.

    Batches are dealt to the processes in turn.
    """
    rounds = zip_longest(*gather_from_processes(batches), fillvalue=())
    return [one for batch in chain.from_iterable(rounds) for one in batch]


def error_rate_intervals(scored: Sequence[ScoredExample]) -> dict[str, float]:
    """95% intervals of both error rates (see `bootstrap_interval`); empty if there are no examples."""
    if not scored:
        return {}
    edits = np.array([one.edits for one in scored], dtype=np.int64)
    lengths = np.array([len(one.reference) for one in scored], dtype=np.int64)
    rates = {
        "sequence_error_rate": bootstrap_interval((edits > 0).astype(np.int64), np.ones_like(edits)),
        "token_error_rate": bootstrap_interval(edits, lengths),
    }
    return {f"{name}_{end}": getattr(rates[name], end) for name in rates for end in ("low", "high")}
