"""Going on from a prompt by drawing one symbol after the other.

PAD, BOS and the unknown symbol are never written. Dropout is the caller's concern: call `model.eval()` first.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.sizes import BOS, EOS, PAD, UNK


@runtime_checkable
class Continuable(Protocol):
    """A model of `p(y_t | y_<t)` that is run one symbol at a time and reads at most `length` at once."""

    length: int

    def start(self, tokens: Tensor) -> tuple[Tensor, Any]:
        """Logits `[B, V]` of what follows `tokens` `[B, L]`, and the state after them."""

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits `[B, V]` of what follows one more symbol `[B]`, and the state after it."""


@dataclass(frozen=True)
class Sampling:
    """How the next symbol is drawn from logits x.

        p = softmax(x / T)

    restricted to the `top_k` most probable symbols, then to the smallest set of the most probable ones that
    together have at least `top_p` (the nucleus: 1904.09751, eq. 2 and 3), and normalised anew.

    Attributes:
        temperature: T; above 1 is flatter, below 1 is sharper, 0 is the most probable symbol alone (greedy).
        top_k: None for no such limit.
        top_p: 1 for no such limit.

    Raises:
        LabError: one of them is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise LabError(f"task.temperature must be at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise LabError(f"task.top_k must be at least 1, or null, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise LabError(f"task.top_p must be above 0 and at most 1, got {self.top_p}")

    def probabilities(self, logits: Float[Tensor, "*shape V"]) -> Float[Tensor, "*shape V"]:
        """The distribution in float64; of symbols that are equally probable, the first is preferred."""
        logits = logits.double()
        if self.temperature == 0:
            return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
        # Shifted first: however small the temperature, the greatest of them stays 0.
        shifted = (logits - logits.amax(-1, keepdim=True)) / self.temperature
        ordered, order = shifted.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ordered[..., self.top_k :] = -torch.inf
        p = ordered.softmax(-1)
        if self.top_p < 1:
            before = p.cumsum(-1) - p  # what the more probable ones have together
            p = p.masked_fill(before >= self.top_p, 0.0)
        return torch.zeros_like(p).scatter(-1, order, p / p.sum(-1, keepdim=True))


def draw(probabilities: Float[Tensor, "B V"], uniform: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The symbol in whose share of [0, 1) the number of its row lies: a draw if that is uniform."""
    cumulative = probabilities.cumsum(-1)
    # Both in float64, where u < 1 makes the product smaller than the sum, which rounding may put off 1.
    return (cumulative <= uniform.unsqueeze(-1) * cumulative[:, -1:]).sum(-1)


@torch.no_grad()
def generate(
    model: Continuable,
    prompts: Int[Tensor, "B L"],
    lengths: Int[Tensor, " B"],
    uniform: Float[Tensor, "B N"],
    sampling: Sampling,
) -> Int[Tensor, "B T"]:
    """Go on from each prompt up to EOS or for N symbols; then PAD.

    A sequence does not depend on its company: all advance together, and one whose prompt is longer takes
    its next symbol from there. Where more than `model.length` symbols have been written, the model reads
    them again from a later one on, after BOS as ever: it sees at least the last half of its length.

    Args:
        model: what writes.
        prompts: symbols, each prompt beginning with BOS; what stands behind its length is not read.
        lengths: their lengths, at least 1.
        uniform: numbers in [0, 1) in float64, one for each symbol to be drawn; see `draw`.
        sampling: how symbols are drawn.
    """
    device, limit = prompts.device, uniform.shape[1]
    # Draws are made on the CPU: other devices have no float64.
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
            logits, state = model.start(context.to(device))
            begin = first
        else:
            logits, state = model.step(tokens[:, end - 1].to(device), state)
        logits = logits.cpu().index_fill(-1, torch.tensor([PAD, BOS, UNK]), -torch.inf)
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


def _first(end: int, length: int) -> int:
    """The first symbol that is read, after BOS, when `end` symbols have been written, BOS included."""
    room = max(1, length - 1)
    hop = room - room // 2
    return 1 + hop * -(-max(0, end - 1 - room) // hop)
