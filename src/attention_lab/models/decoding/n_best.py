"""The n best outputs that a beam search finds, with their scores."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.models.decoding.search import Decodable, State, run_beams


@torch.no_grad()
def n_best_search(
    model: Decodable[State],
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
    beam_size: int,
    n: int,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    """The n best hypotheses that a beam search finds for each source, by `log p(Y | X) / lp(Y)`.

    The search ends when no live hypothesis can still be among the n best. A beam smaller than n may find
    fewer. The arguments besides `n` are those of `beam_search`.

    Returns:
        Symbols, each sequence up to EOS and then PAD, best first, and their scores: -inf if there are fewer
        than n. If no hypothesis ended within `max_length`, the best unfinished ones.

    Raises:
        LabError: `beam_size`, `n` or `max_length` is below 1.
    """
    beams = run_beams(model, source, source_lengths, max_length, beam_size, n, length_penalty)
    return beams.best, beams.best_scores
