"""The best output of a beam search for each source."""

from typing import Any

from torch import Tensor

from attention_lab.models.decoding.beam_search import n_best_search, trimmed


def beam_search(
    model: Any,
    source: Tensor,
    lengths: Tensor,
    max_length: int | Tensor,
    beam_size: int,
    length_penalty: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The first of the n best outputs, and its score."""
    tokens, scores = n_best_search(model, source, lengths, max_length, beam_size, 1, length_penalty)
    return trimmed(tokens[:, 0]), scores[:, 0]
