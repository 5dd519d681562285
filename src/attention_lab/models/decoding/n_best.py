"""The n best outputs that a beam search finds, with their scores."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.models.decoding.search import Beams, Decodable, State, check_at_least_one, run_beams
from attention_lab.sizes import PAD


class NBestBeams(Beams):
    """Beams that keep the n best finished hypotheses of each source.

    Args:
        limits: see `Beams`.
        size: see `Beams`.
        length_penalty: see `Beams`.
        n: number of hypotheses to keep.

    Raises:
        LabError: `size` or `n` is below 1.

    Attributes:
        kept: `[B, n, T]`, best first, padded; their scores are `kept_scores` `[B, n]`, -inf where fewer than
            n were found.
    """

    def __init__(self, limits: Tensor, size: int, length_penalty: float, n: int) -> None:
        check_at_least_one(n=n)
        super().__init__(limits, size, length_penalty)
        self.kept = torch.full((len(limits), n, self.longest), PAD, device=limits.device)
        self.kept_scores = torch.full((len(limits), n), -torch.inf, device=limits.device)

    def has_finished(self) -> Tensor:
        """Whether any hypothesis has finished, for each source."""
        return self.kept_scores[:, 0] > -torch.inf

    def keep_best(self, scores: Tensor) -> None:
        """Merge hypotheses with scores `[B, size]` into the n best; the n-th is the one to beat."""
        batch, count, _ = self.kept.shape
        length = self.written.shape[-1]
        candidates = torch.full((batch, scores.shape[1], self.longest), PAD, device=self.kept.device)
        candidates[..., :length] = self.written
        everything = torch.cat([self.kept_scores, scores], 1)
        order = everything.argsort(stable=True, dim=1, descending=True)[:, :count]
        self.kept_scores = everything.gather(1, order)
        together = torch.cat([self.kept, candidates], 1)
        self.kept = together.gather(1, order.unsqueeze(-1).expand(-1, -1, self.longest))
        self.best_score = self.kept_scores[:, -1]


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
    fewer.

    Args:
        model: see `beam_search`.
        source: see `beam_search`.
        source_lengths: see `beam_search`.
        max_length: see `beam_search`.
        beam_size: see `beam_search`.
        n: number of hypotheses to return for each source.
        length_penalty: see `beam_search`.

    Returns:
        Symbols, each sequence up to EOS and then PAD, best first, and their scores: -inf if there are fewer
        than n. If no hypothesis ended within `max_length`, the best unfinished ones.

    Raises:
        LabError: `beam_size`, `n` or `max_length` is below 1.
    """
    beams = run_beams(
        model,
        source,
        source_lengths,
        max_length,
        lambda limits: NBestBeams(limits, beam_size, length_penalty, n),
    )
    return beams.kept, beams.kept_scores
