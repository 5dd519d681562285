"""Continue a prompt by sampling one symbol at a time.

PAD, BOS and the unknown symbol are never generated. The caller must disable dropout by calling
`model.eval()`.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.errors import LabError
from attention_lab.models.decoding.beam_search import check_numbers
from attention_lab.special_symbols import BOS, EOS, PAD, UNK


@runtime_checkable
class Continuable(Protocol):
    """A model of `p(y_t | y_<t)` that runs one symbol at a time and reads at most `length` at once."""

    length: int

    def start(self, tokens: Tensor) -> tuple[Tensor, Any]:
        """Logits `[B, V]` of the symbol after `tokens` `[B, L]`, and the state after them."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits `[B, V]` of the symbol after one more symbol `[B]`, and the state after it."""


@dataclass(frozen=True)
class Sampling:
    """How the next symbol is sampled from logits x.

        p = softmax(x / T)

    restricted to the `top_k` most probable symbols, then to the smallest set of most probable symbols whose
    total probability is at least `top_p` (the nucleus: 1904.09751, eq. 2 and 3), and renormalised.

    Attributes:
        temperature: T; above 1 flattens p, below 1 sharpens it, 0 always takes the most probable (greedy).
        top_k: None for no limit.
        top_p: 1 for no limit.

    Raises:
        LabError: an option is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise LabError(f"task.temperature must be finite and at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise LabError(f"task.top_k must be at least 1, or null, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise LabError(f"task.top_p must be above 0 and at most 1, got {self.top_p}")

    def probabilities(self, logits: Float[Tensor, "*shape V"]) -> Float[Tensor, "*shape V"]:
        """The distribution in float64; among equally probable symbols, the first is preferred."""
        logits = logits.double()
        if self.temperature == 0:
            return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
        # Shift before dividing: the largest logit is then 0 at any temperature.
        shifted = (logits - logits.amax(-1, keepdim=True)) / self.temperature
        ordered, order = shifted.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ordered[..., self.top_k :] = -torch.inf
        p = ordered.softmax(-1)
        if self.top_p < 1:
            before = p.cumsum(-1) - p  # total probability of the more probable symbols
            p = p.masked_fill(before >= self.top_p, 0.0)
        return torch.zeros_like(p).scatter(-1, order, p / p.sum(-1, keepdim=True))


def draw(probabilities: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Inverse transform sampling: the symbol whose interval of [0, 1) contains the row's uniform number."""
    cumulative = probabilities.cumsum(-1)
    # In float64, where u < 1 keeps u times the total below the total, which may differ from 1 by rounding.
    return (cumulative <= uniform.unsqueeze(-1) * cumulative[:, -1:]).sum(-1)


@torch.no_grad()
def generate(
    model: Continuable,
    prompts: Int[Tensor, "B L"],
    lengths: Int[Tensor, " B"],
    uniform: Float[Tensor, "B N"],
    sampling: Sampling,
    symbols: int | None = None,
) -> Int[Tensor, "B T"]:
    """Continue each prompt up to EOS or for N symbols; then PAD.

    A sequence does not depend on the rest of its batch: all sequences advance together, and one whose prompt
    is longer takes its next symbol from the prompt. When more than `model.length` symbols have been
    generated, the model starts reading again from a later symbol, after BOS as usual, so that it always sees
    at least the last half of its context length.

    Args:
        model: the model to sample from.
        prompts: symbols, each prompt starting with BOS; symbols beyond its length are ignored.
        lengths: their lengths, at least 1.
        uniform: numbers in [0, 1) in float64, one for each symbol to be sampled; see `draw`.
        sampling: how symbols are sampled.
        symbols: V, the number of symbols, if it is to be checked.

    Raises:
        LabError: the model, perhaps the user's own, does not return logits of the next symbol and a state,
            or they are NaN.
    """
    device, limit = prompts.device, uniform.shape[1]
    # Sample on the CPU: some other devices have no float64.
    prompts, lengths, uniform = prompts.cpu(), lengths.cpu(), uniform.cpu()
    shortest, longest = int(lengths.min()), int(lengths.max()) + limit
    tokens = prompts.new_full((len(prompts), longest), PAD)
    tokens[:, :shortest] = prompts[:, :shortest]
    ended = torch.zeros_like(lengths, dtype=torch.bool)
    begin, state = -1, None
    end = shortest
    for end in range(shortest, longest):
        first = _first(end, model.length)
        if first != begin:
            context = torch.cat([tokens[:, :1], tokens[:, first:end]], 1)
            logits, state = _checked(model, "start", model.start(context.to(device)), len(tokens), symbols)
            begin = first
        else:
            answer = model.step(tokens[:, end - 1].to(device), state)
            logits, state = _checked(model, "step", answer, len(tokens), symbols)
        logits = logits.cpu()
        check_numbers(model, logits[~ended].isnan())
        logits = logits.index_fill(-1, torch.tensor([PAD, BOS, UNK]), -torch.inf)
        number = (end - lengths).clamp(0, limit - 1)
        drawn = draw(sampling.probabilities(logits), uniform.gather(1, number.unsqueeze(-1)).squeeze(-1))
        given = end < lengths
        ended = ended | (end >= lengths + limit)
        tokens[:, end] = torch.where(
            given, prompts[:, min(end, prompts.shape[1] - 1)], drawn.masked_fill(ended, PAD)
        )
        ended = ended | (~given & (drawn == EOS))
        if bool(ended.all()):
            break
    return tokens[:, : end + 1].to(device)


def _checked(
    model: Continuable, method: str, answer: object, rows: int, symbols: int | None
) -> tuple[Tensor, Any]:
    """The value that a method has returned. Raises LabError unless it is logits `[B, V]` and a state."""
    logits = answer[0] if isinstance(answer, tuple) and len(answer) == 2 else None
    given = kind_of(answer)
    if isinstance(logits, Tensor):
        fits = logits.dim() == 2 and len(logits) == rows and symbols in (None, logits.shape[1])
        if fits and logits.is_floating_point():
            return answer  # type: ignore[return-value]
        given = str(logits.dtype if fits else list(logits.shape))
    raise LabError(
        f"{type(model).__name__}.{method} must return logits [{rows}, {symbols or 'V'}] of the next symbol "
        f"and the state after them, not {given}"
    )


def _first(end: int, length: int) -> int:
    """The first symbol to read after BOS when `end` symbols have been generated, BOS included."""
    room = max(1, length - 1)
    hop = room - room // 2
    return 1 + hop * -(-max(0, end - 1 - room) // hop)
