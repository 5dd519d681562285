"""Writing a sequence out symbol by symbol: greedily, or by beam search.

Any model with `start`, `step` and `select` can be decoded. PAD and BOS are never written; their share of
the probability is not dealt out to other symbols, so scores are the model's own log-probabilities.
Dropout is the caller's concern: call `model.eval()` first.
"""

from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.sizes import BOS, EOS, PAD

State = TypeVar("State")


@runtime_checkable
class Decodable(Protocol[State]):
    """A model of `p(y_t | y_<t, x)` that is run one symbol at a time."""

    def start(self, source: Tensor, source_lengths: Tensor) -> State:
        """The state before the first symbol, of a batch of sources."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (or log-probabilities) `[N, V]` of what follows `tokens` `[N]`, and the state after them."""

    def select(self, state: State, index: Tensor) -> State:
        """The states of the sequences `index`, some left out, some repeated."""


@torch.no_grad()
def greedy(
    model: Decodable[State],
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
) -> Int[Tensor, "B T"]:
    """The most probable symbol at each step, up to EOS or `max_length` symbols; then PAD.

    `max_length` is one for all sources or one for each.
    """
    limits = _limits(max_length, source_lengths)
    state = model.start(source, source_lengths)
    tokens = torch.full_like(source_lengths, BOS)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    written = []
    for length in range(1, int(limits.max()) + 1):
        log_probabilities, state = _step(model, tokens, state)
        tokens = log_probabilities.argmax(-1).masked_fill(ended, PAD)
        written.append(tokens)
        ended = ended | (tokens == EOS) | (limits <= length)
        if bool(ended.all()):
            break
    return torch.stack(written, 1)


@torch.no_grad()
def beam_search(
    model: Decodable[State],
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
    beam_size: int,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B T"], Float[Tensor, " B"]]:
    """The best hypothesis found for each source, by `log p(Y | X) / lp(Y)` (1609.08144, eq. 14).

    At each step the `beam_size` most probable continuations of a source's live hypotheses are kept. Those
    that end leave the beam to compete for the best, the others live on. A source is done when none of its
    live hypotheses can win, whatever may follow: log-probabilities only fall, so the bound is the present
    one over the most favourable penalty still to come. With one beam this is greedy search.

    Args:
        model: what writes.
        source: symbols or images, padded.
        source_lengths: their lengths.
        max_length: bound on the symbols of a hypothesis, EOS included; one for all sources or one for each.
        beam_size: hypotheses kept for each source.
        length_penalty: alpha of `penalty`; 0 compares log-probabilities, more favours longer outputs.

    Returns:
        Symbols, each sequence up to EOS and then PAD, and scores. Where no hypothesis ended within
        `max_length`, the best that did not.
    """
    limits = _limits(max_length, source_lengths)
    longest = int(limits.max())
    _check(beam_size=beam_size)
    batch, device = len(source), source.device
    first = torch.arange(batch, device=device).unsqueeze(-1) * beam_size  # each source's first row
    state = model.select(
        model.start(source, source_lengths), torch.arange(batch, device=device).repeat_interleave(beam_size)
    )
    tokens = torch.full((batch * beam_size,), BOS, device=device)
    history = tokens.new_zeros(batch, beam_size, 0)
    best = tokens.new_full((batch, longest), PAD)
    best_score = torch.full((batch,), -torch.inf, device=device)
    # All beams are one and the same hypothesis at first: only one of them counts.
    live = torch.full((batch, beam_size), -torch.inf, device=device)
    live[:, 0] = 0.0
    for length in range(1, longest + 1):
        log_probabilities, state = _step(model, tokens, state)
        grown = live.unsqueeze(-1) + log_probabilities.view(batch, beam_size, -1)
        symbols = grown.shape[-1]
        live, choice = grown.flatten(1).topk(beam_size)
        origin, symbol = choice // symbols, choice % symbols
        history = torch.cat([_take(history, origin), symbol.unsqueeze(-1)], -1)

        last = (limits == length).unsqueeze(-1)
        ended = symbol == EOS
        scores = live / penalty(length, length_penalty)
        best, best_score = _keep_best(best, best_score, history, scores.masked_fill(~ended, -torch.inf))
        # At its limit, where nothing has ended, better an unfinished output than none.
        settled = ~last | (best_score > -torch.inf).unsqueeze(-1)
        best, best_score = _keep_best(best, best_score, history, scores.masked_fill(settled, -torch.inf))
        # The penalty is monotonic in the length: the most favourable one is at either end.
        divisor = max(penalty(length + 1, length_penalty), penalty(longest, length_penalty))
        live = live.masked_fill(ended | last | (live / divisor <= best_score.unsqueeze(-1)), -torch.inf)
        if bool((live == -torch.inf).all()):
            break
        tokens = symbol.flatten()
        state = model.select(state, (first + origin).flatten())
    return best[:, : int((best != PAD).sum(-1).max())], best_score


def penalty(length: int, alpha: float) -> float:
    """Length penalty `lp(Y) = ((5 + |Y|) / (5 + 1))^alpha` (1609.08144, eq. 14), |Y| with EOS."""
    return float(((5 + length) / 6) ** alpha)


def _keep_best(best: Tensor, best_score: Tensor, history: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Put the best of the hypotheses `[B, beams, t]` in the place of what it surpasses."""
    score, beam = scores.max(-1)
    better = score > best_score
    length = history.shape[-1]
    candidate = torch.zeros_like(best)
    candidate[:, :length] = _take(history, beam.unsqueeze(-1)).squeeze(1)
    return torch.where(better.unsqueeze(-1), candidate, best), torch.where(better, score, best_score)


def _take(history: Tensor, beams: Tensor) -> Tensor:
    """The rows `beams` `[B, n]` of `[B, beams, t]`, for each source."""
    return history.gather(1, beams.unsqueeze(-1).expand(-1, -1, history.shape[-1]))


def _step(model: Decodable[State], tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """Log-probabilities of what follows, with no way to the symbols that are never written."""
    logits, state = model.step(tokens, state)
    working = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = torch.log_softmax(logits, -1, dtype=working)
    log_probabilities[:, [PAD, BOS]] = -torch.inf
    return log_probabilities, state


def _limits(max_length: int | Tensor, source_lengths: Tensor) -> Tensor:
    """The bound on the symbols of each source's output."""
    limits = max_length if isinstance(max_length, Tensor) else torch.full_like(source_lengths, max_length)
    _check(max_length=int(limits.min()))
    return limits


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise LabError(f"{name} must be at least 1, got {number}")
