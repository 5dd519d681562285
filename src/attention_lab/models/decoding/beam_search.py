"""Decode a sequence symbol by symbol: greedily, or by beam search.

Any model with `start`, `step` and `select` can be decoded. PAD and BOS are never generated; their probability
is not redistributed, so scores are the model's own log-probabilities. The caller must disable dropout by
calling `model.eval()` first.
"""

from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

from attention_lab.argument_checks import check_number
from attention_lab.errors import LabError
from attention_lab.special_symbols import BOS, EOS, PAD

_WORTH_LEAVING_OUT = 0.9
"""Finished sources are left out of decoding once less than this share of the sources remains."""
State = TypeVar("State")


@runtime_checkable
class Decodable(Protocol[State]):
    """A model of `p(y_t | y_<t, x)` that runs one symbol at a time.

    Beam search is faster if the model also has `reorder`. It is like `select`, but keeps the number of
    sequences and replaces each one by another of the same source, so that memories need not be copied.
    """

    def start(self, source: Tensor, source_lengths: Tensor) -> State:
        """The state before the first symbol, for a batch of sources."""

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (or log-probabilities) `[N, V]` of the symbols after `tokens` `[N]`, and the new state."""

    def select(self, state: State, index: Tensor) -> State:
        """The states of the sequences `index`, which may omit and repeat sequences."""


@torch.no_grad()
def greedy(
    model: Decodable[State],
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
) -> Int[Tensor, "B T"]:
    """The most probable symbol at each step, up to EOS or `max_length` symbols; then PAD.

    `max_length` is a single number for all sources, or one number for each.

    Raises:
        LabError: it is below 1, or the model's logits are NaN.
    """
    limits = _limits(max_length, source_lengths)
    state = model.start(source, source_lengths)
    tokens = torch.full_like(source_lengths, BOS)
    ended = torch.zeros_like(tokens, dtype=torch.bool)
    nan = torch.zeros_like(ended)
    outputs = []
    for length in range(1, int(limits.max()) + 1):
        log_probabilities, state = _step(model, tokens, state)
        largest, symbol = log_probabilities.max(-1)  # NaN if one of them is
        nan = nan | (largest.isnan() & ~ended)
        tokens = symbol.masked_fill(ended, PAD)
        outputs.append(tokens)
        ended = ended | (tokens == EOS) | (limits <= length)
        if bool(ended.all()):
            break
    check_numbers(model, nan)
    return torch.stack(outputs, 1)


class Beams:
    """The hypotheses of each source: the live ones, and the n best finished ones.

    Args:
        limits: `[B]`, the maximum length of each source's hypotheses.
        size: number of live hypotheses kept for each source.
        n: number of finished hypotheses kept for each source.
        length_penalty: alpha of `penalty`.

    Raises:
        LabError: `size` or `n` is below 1.

    Attributes:
        tokens: `[B, m, t]`, the symbols of the hypotheses so far; m is `size`, or fewer in the first steps.
        live: `[B, m]`, their log-probabilities, -inf for dropped hypotheses.
        best: `[B, n, T]`, the best finished hypotheses, best first, padded.
        best_scores: `[B, n]`, their scores, -inf where fewer than n were found.
        nan: `[B]`, whether a log-probability has been NaN.
    """

    def __init__(self, limits: Tensor, size: int, n: int, length_penalty: float) -> None:
        check_number("beam_size", size, least=1)
        check_number("n", n, least=1)
        self.limits, self.length_penalty = limits, length_penalty
        self.longest = int(limits.max())
        batch, device = len(limits), limits.device
        self.size, self.n = size, n
        self.tokens = torch.empty(batch, 1, 0, dtype=torch.int64, device=device)
        self.live = torch.zeros(batch, 1, device=device)  # the empty hypothesis
        self.best = torch.full((batch, n, self.longest), PAD, device=device)
        self.best_scores = torch.full((batch, n), -torch.inf, device=device)
        self.nan = torch.zeros(batch, dtype=torch.bool, device=device)

    def extend(self, log_probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the most probable continuations of the hypotheses.

        Args:
            log_probabilities: `[B, n, V]`, of each hypothesis' next symbol.

        Returns:
            `[B, m]`, the indices of the hypotheses that are continued, and `[B, m]`, their next symbols.
        """
        extended = self.live.unsqueeze(-1) + log_probabilities
        symbols = extended.shape[-1]
        self.live, choice = extended.flatten(1).topk(min(self.size, extended[0].numel()))
        self.nan = self.nan | self.live.isnan().any(-1)  # `topk` takes NaN for the largest
        origin, symbol = choice // symbols, choice % symbols
        self.tokens = torch.cat([_take(self.tokens, origin), symbol.unsqueeze(-1)], -1)
        return origin, symbol

    def finish(self) -> Tensor:
        """Let hypotheses that end here compete for the n best; returns `[B, m]`, True for those to stop."""
        length = self.tokens.shape[-1]
        scores = self.live / penalty(length, self.length_penalty)
        ended = self.tokens[..., -1] == EOS
        # At the maximum length, if nothing has finished, an unfinished output is better than none.
        last = (self.limits == length).unsqueeze(-1)
        finished = torch.cat([self.best_scores, scores.masked_fill(~ended, -torch.inf)], 1) > -torch.inf
        eligible = ended | (last & ~finished.any(1, keepdim=True))
        outputs = pad(self.tokens, (0, self.longest - length), value=PAD)
        self.best, self.best_scores = best_first(
            torch.cat([self.best, outputs], 1),
            torch.cat([self.best_scores, scores.masked_fill(~eligible, -torch.inf)], 1),
            self.n,
        )
        return ended | last

    def prune(self, finished: Tensor) -> None:
        """Drop the hypotheses that are finished or can no longer win."""
        # The penalty is monotonic in the length, so the most favourable one is at either end.
        soonest, latest = self.tokens.shape[-1] + 1, self.longest
        divisor = max(penalty(length, self.length_penalty) for length in (soonest, latest))
        beaten = self.live / divisor <= self.best_scores[:, -1:]
        self.live = self.live.masked_fill(finished | beaten, -torch.inf)

    def unfinished(self) -> Tensor:
        """The sources that have live hypotheses, in order."""
        return (self.live > -torch.inf).any(-1).nonzero().squeeze(1)


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

    At each step, the `beam_size` most probable continuations of a source's live hypotheses are kept, or all
    of them if there are fewer. Hypotheses that end leave the beam and compete for the n best; the others stay
    live. A source is done when none of its live hypotheses can still win: log-probabilities only fall, so
    the bound is the current one divided by the most favourable penalty still possible. A beam of one is
    greedy search; a beam smaller than n may find fewer than n.

    Args:
        model: the model to decode.
        source: symbols or images, padded.
        source_lengths: their lengths.
        max_length: maximum length of a hypothesis in symbols, including EOS; one number for all sources or
            one for each.
        beam_size: number of hypotheses kept for each source.
        n: number of hypotheses to return for each source.
        length_penalty: alpha of `penalty`; 0 compares log-probabilities, larger values favour longer outputs.

    Returns:
        Symbols, each sequence up to EOS and then PAD, best first, and their scores: -inf if there are fewer
        than n. If no hypothesis ended within `max_length`, the best unfinished ones.

    Raises:
        LabError: `beam_size`, `n` or `max_length` is below 1, or the model's logits are NaN.
    """
    beams = Beams(_limits(max_length, source_lengths), beam_size, n, length_penalty)
    state = model.start(source, source_lengths)
    tokens = torch.full((len(source),), BOS, device=source.device)
    reorder = getattr(model, "reorder", model.select)
    active = torch.arange(len(source), device=source.device)  # the sources that are still decoded
    count = 1  # hypotheses of each
    for _ in range(beams.longest):
        log_probabilities, state = _step(model, tokens, state)
        origin, symbol = beams.extend(_expand(log_probabilities.view(len(active), count, -1), active, beams))
        beams.prune(beams.finish())
        unfinished = beams.unfinished()
        if not len(unfinished):
            break
        # Leaving out finished sources means copying the memories of the others.
        kept = unfinished if len(unfinished) < _WORTH_LEAVING_OUT * len(active) else active
        rows = (torch.searchsorted(active, kept).unsqueeze(-1) * count + origin[kept]).flatten()
        same = len(kept) == len(active) and origin.shape[1] == count
        state = (reorder if same else model.select)(state, rows)
        tokens, active, count = symbol[kept].flatten(), kept, origin.shape[1]
    check_numbers(model, beams.nan)
    return beams.best, beams.best_scores


def check_numbers(model: object, nan: Tensor) -> None:
    """Raise LabError if any logit was NaN. Call it once: on a GPU, each call forces a synchronisation."""
    if bool(nan.any()):
        raise LabError(f"{type(model).__name__} gives logits that are NaN: no symbol can be chosen")


def _expand(log_probabilities: Tensor, active: Tensor, beams: Beams) -> Tensor:
    """Expand the log-probabilities `[b, n, V]` of the `active` sources to all sources; the rest are done."""
    batch = len(beams.live)
    if len(active) == batch:
        return log_probabilities
    full = log_probabilities.new_zeros(batch, *log_probabilities.shape[1:])
    return full.index_copy_(0, active, log_probabilities)


def trimmed(outputs: Int[Tensor, "*N T"]) -> Int[Tensor, "*N t"]:
    """The outputs with no more padding than needed."""
    return outputs[..., : int((outputs != PAD).sum(-1).max())]


def penalty(length: int | Tensor, alpha: float) -> Any:
    """Length penalty `lp(Y) = ((5 + |Y|) / (5 + 1))^alpha` (1609.08144, eq. 14), |Y| counting EOS."""
    return ((5 + length) / 6) ** alpha


def penalized(scores: Float[Tensor, "*N"], outputs: Int[Tensor, "*N T"], alpha: float) -> Float[Tensor, "*N"]:
    """The scores of outputs, each divided by its `penalty`."""
    divisors: Tensor = penalty((outputs != PAD).sum(-1).to(scores.dtype), alpha)
    return scores / divisors


def best_first(
    outputs: Int[Tensor, "B m T"], scores: Float[Tensor, "B m"], n: int | None = None
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    """The n outputs with the highest scores, by default all, and their scores, best first.

    NaN counts as -inf.
    """
    scores, order = scores.nan_to_num(-torch.inf, neginf=-torch.inf).sort(dim=1, descending=True, stable=True)
    return _take(outputs, order[:, :n]), scores[:, :n]


def _take(tokens: Tensor, hypotheses: Tensor) -> Tensor:
    """Select the hypotheses `[B, k]` of each source from `tokens` `[B, m, t]`."""
    return tokens.gather(1, hypotheses.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


def _step(model: Decodable[State], tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """Log-probabilities of the next symbols, -inf for symbols that are never generated."""
    logits, state = model.step(tokens, state)
    working = torch.promote_types(logits.dtype, torch.float32)
    log_probabilities = torch.log_softmax(logits, -1, dtype=working)
    for never in (PAD, BOS):  # one by one: indexing with a list would copy it to the GPU at every step
        log_probabilities[:, never] = -torch.inf
    return log_probabilities, state


def _limits(max_length: int | Tensor, source_lengths: Tensor) -> Tensor:
    """The maximum length of each source's output, in symbols."""
    limits = max_length if isinstance(max_length, Tensor) else torch.full_like(source_lengths, max_length)
    check_number("max_length", int(limits.min()), least=1)
    return limits
