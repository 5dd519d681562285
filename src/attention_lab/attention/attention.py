"""Attention, the one line that all models share: `pool(normalise(score(query, key), mask), value)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.attention.fast.fused import fused_attention
from attention_lab.attention.normalizers import Normalizer, Softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.scores import Score


class Memory(NamedTuple):
    """What queries attend to: prepared once for a source by `Attention.remember`, then passed on.

    Attributes:
        keys: what the score has computed of the keys, `[..., K, f]`.
        value: `[..., K, dv]`.
        mask: boolean, broadcastable to `[..., Q, K]`, True = attend; None if all may be attended.
    """

    keys: Tensor
    value: Tensor
    mask: Tensor | None

    def select(self, index: Int[Tensor, " N"]) -> "Memory":
        """The memories of the examples `index`, as for the beams of a search."""
        mask = None if self.mask is None else self.mask.index_select(0, index)
        return Memory(self.keys.index_select(0, index), self.value.index_select(0, index), mask)


class Attention(nn.Module):
    """Attention pooling `f(q) = sum_i a(q, k_i) v_i` with exchangeable parts.

    The fastest exact path is taken: the fused kernel if the score is an inner product and the
    normaliser a softmax, which never holds the weights. Inside `recording` the weights are computed
    and kept; the context is then the same up to rounding.

    Args:
        score: the scoring function.
        normalizer: scores and mask to weights.
        pooling: weights and values to context.
        dropout: probability with which a weight is dropped in training, after normalisation.
    """

    def __init__(
        self,
        score: Score,
        normalizer: Normalizer | None = None,
        pooling: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.pooling = Soft() if pooling is None else pooling
        self.dropout = nn.Dropout(dropout)
        self.record: Callable[[Tensor, Tensor | None], None] | None = None

    def remember(
        self,
        key: Float[Tensor, "... K dk"],
        value: Float[Tensor, "... K dv"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Memory:
        """Prepare keys and values (by default the keys) to be attended to any number of times.

        What no query may see is set to zero, so that not even NaN or infinity in padding can leak.
        """
        value = key if value is None else value
        if mask is not None:
            if mask.device.type == "cpu" and bool(mask.all()):
                mask = None  # half the time of the fused kernel is its mask
            else:
                hidden = ~mask.any(-2, keepdim=True).mT
                same = value is key
                key = key.masked_fill(hidden, 0.0)
                value = key if same else value.masked_fill(hidden, 0.0)
        return Memory(self.score.keys(key), value, mask)

    def weights(self, query: Float[Tensor, "... Q dq"], memory: Memory) -> Float[Tensor, "... Q K"]:
        """The weights of all pairs, before dropout; zero for masked keys and in rows without a key."""
        return self.normalizer(self.score(query, memory.keys), memory.mask)

    def forward(self, query: Float[Tensor, "... Q dq"], memory: Memory) -> Float[Tensor, "... Q dv"]:
        """The context of every query; zero for a query that may attend to no key."""
        if self.record is None and self.normalizer.scale is not None and isinstance(self.pooling, Soft):
            features = self.score.features(query, memory.keys, memory.mask)
            if features is not None:
                dropout = self.dropout.p if self.training else 0.0
                scale = self.normalizer.scale
                return fused_attention(*features, memory.value, memory.mask, scale=scale, dropout=dropout)
        weights = self.weights(query, memory)
        if self.record is not None:
            self.record(weights, memory.mask)
        context: Tensor = self.pooling(self.dropout(weights), memory.value)
        return context


@dataclass(frozen=True)
class Mechanism:
    """A choice of score, normaliser and pooling, not yet sized: what a configuration composes.

    Attributes:
        score: makes a score from `query_size`, `key_size` and `heads`.
        normalizer: makes a normaliser.
        pooling: makes a pooling.
    """

    score: Callable[..., Score]
    normalizer: Callable[[], Normalizer] = Softmax
    pooling: Callable[[], nn.Module] = Soft

    def __call__(
        self, query_size: int, key_size: int, heads: int | None = None, dropout: float = 0.0
    ) -> Attention:
        """An attention for queries and keys of these sizes, with a score for each head where given."""
        score = self.score(query_size=query_size, key_size=key_size, heads=heads)
        return Attention(score, self.normalizer(), self.pooling(), dropout)
