"""The line that all models share: `pool(normalise(score(query, key), mask · window), value)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.attention.fast.fused import fused_attention
from attention_lab.attention.fast.linear import linear_attention
from attention_lab.attention.masks import causal_mask
from attention_lab.attention.normalizers import Normalizer, Softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.scores import Score
from attention_lab.attention.windows import Global, Span, Window
from attention_lab.errors import LabError


class Memory(NamedTuple):
    """What queries attend to: prepared once for a source by `Attention.remember`, then passed on.

    Attributes:
        keys: what the score has computed of the keys, `[..., K, f]`.
        value: `[..., K, dv]`.
        mask: boolean, broadcastable to `[..., Q, K]`, True = attend; None if all may be attended.
        causal: whether a query sees only the keys up to its own position.
    """

    keys: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool = False

    def select(self, index: Int[Tensor, " N"]) -> "Memory":
        """The memories of the examples `index`, as for the beams of a search."""
        mask = self.mask
        if (
            mask is not None and mask.dim() == self.keys.dim() and len(mask) > 1
        ):  # else it is the same for all
            mask = mask.index_select(0, index)
        return Memory(self.keys.index_select(0, index), self.value.index_select(0, index), mask, self.causal)

    def extend(self, more: "Memory") -> "Memory":
        """This memory with the keys and values of `more` after its own; neither may be masked."""
        if self.mask is not None or more.mask is not None:
            raise ValueError("a memory with a mask cannot be extended")
        keys, value = torch.cat([self.keys, more.keys], -2), torch.cat([self.value, more.value], -2)
        return Memory(keys, value, None, self.causal)


class Attention(nn.Module):
    """Attention pooling `f(q) = sum_i a(q, k_i) v_i` with exchangeable parts.

    The fastest exact path is taken: the fused kernel if the score is an inner product and the normaliser
    a softmax, sums over the keys if it is the logarithm of one; neither ever holds the weights. Inside
    `recording` the weights are computed and kept; the context is then the same up to rounding.

    Args:
        score: the scoring function.
        normalizer: scores and mask to weights.
        pooling: weights and values to context.
        window: keys that a query may attend to by their position.
        dropout: probability with which a weight is dropped in training, after normalisation.
    """

    def __init__(
        self,
        score: Score,
        normalizer: Normalizer | None = None,
        pooling: nn.Module | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.pooling = Soft() if pooling is None else pooling
        self.window = Global(score.query_size) if window is None else window
        self.dropout = nn.Dropout(dropout)
        if dropout and not isinstance(self.pooling, Soft):
            raise LabError(
                "model.attention_dropout drops weights, and hard pooling draws from them: "
                "set model.attention_dropout=0, or choose pooling=soft"
            )
        self.record: Callable[[Tensor, Tensor | None, Tensor | None], None] | None = None

    def remember(
        self,
        key: Float[Tensor, "... K dk"],
        value: Float[Tensor, "... K dv"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
    ) -> Memory:
        """Prepare keys and values (by default the keys) to be attended to any number of times.

        What no query may see is set to zero, so that not even NaN or infinity in padding can leak.

        Args:
            key: keys.
            value: values.
            mask: boolean, broadcastable to `[..., Q, K]`, True = attend.
            causal: let a query see only the keys up to its own position.
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
        return Memory(self.score.keys(key), value, mask, causal)

    def weights(
        self,
        query: Float[Tensor, "... Q dq"],
        memory: Memory,
        *,
        offset: int = 0,
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "... Q K"]:
        """The weights of all pairs, before dropout; zero for masked keys and in rows without a key."""
        return self._weights(query, memory, self._span(query, memory, offset), bias)

    def forward(
        self,
        query: Float[Tensor, "... Q dq"],
        memory: Memory,
        *,
        offset: int = 0,
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "... Q dv"]:
        """The context of every query; zero for a query that may attend to no key.

        Args:
            query: the queries, at the positions `offset`, `offset + 1`, ...
            memory: what `remember` has made of keys and values.
            offset: position of the first query.
            bias: added to the scores, broadcastable to `[..., Q, K]`, as by relative positions.
        """
        if self.record is None and self.normalizer.scale is not None and isinstance(self.pooling, Soft):
            context = self._without_weights(query, memory, offset, bias, self.normalizer.scale)
            if context is not None:
                return context
        span = self._span(query, memory, offset)
        weights = self._weights(query, memory, span, bias)
        if self.record is not None:
            self.record(weights, span.mask, span.centre)
        pooled: Tensor = self.pooling(self.dropout(weights), memory.value)
        return pooled

    def _weights(self, query: Tensor, memory: Memory, span: Span, bias: Tensor | None) -> Tensor:
        scores = self.score(query, memory.keys)
        weights = self.normalizer(scores if bias is None else scores + bias, span.mask)
        return weights if span.factor is None else weights * span.factor

    def _span(self, query: Tensor, memory: Memory, offset: int) -> Span:
        """All that restricts a query: the memory's mask, its order and the window."""
        keys = memory.keys.shape[-2]
        mask = memory.mask
        if memory.causal:
            earlier = causal_mask(query.shape[-2], keys, query.device, offset=offset)
            mask = earlier if mask is None else mask & earlier
        span = self.window(query, keys, mask, offset)
        if mask is None:
            return span
        return span._replace(mask=mask if span.mask is None else mask & span.mask)

    def _without_weights(
        self, query: Tensor, memory: Memory, offset: int, bias: Tensor | None, scale: float
    ) -> Tensor | None:
        """The context by a path that never holds the weights; None if there is none."""
        dropout = self.dropout.p if self.training else 0.0
        if scale == 1 and not dropout and bias is None and isinstance(self.window, Global):
            context = self._linear(query, memory, offset)
            if context is not None:
                return context
        mask = memory.mask
        plain = memory.causal and offset == 0 and query.shape[-2] == memory.keys.shape[-2]
        plain = plain and mask is None and bias is None and isinstance(self.window, Global)
        if not plain:
            span = self._span(query, memory, offset)
            if span.factor is not None:
                return None
            mask = span.mask
        features = self.score.features(query, memory.keys, memory.mask)
        if features is None:
            return None
        return fused_attention(
            *features, memory.value, mask, bias=bias, causal=plain, scale=scale, dropout=dropout
        )

    def _linear(self, query: Tensor, memory: Memory, offset: int) -> Tensor | None:
        """The context by sums over the keys; None if the score or the mask is not made for it."""
        features = self.score.kernel_features(query, memory.keys)
        mask = memory.mask
        if features is None or (mask is not None and mask.shape[-2] != 1):
            return None
        if memory.causal and (offset or query.shape[-2] != memory.keys.shape[-2]):
            return None
        return linear_attention(*features, memory.value, mask, causal=memory.causal)


@dataclass(frozen=True)
class Mechanism:
    """A choice of score, normaliser, pooling and window, not yet sized: what a configuration composes.

    Attributes:
        score: makes a score from `query_size`, `key_size` and `heads`.
        normalizer: makes a normaliser.
        pooling: makes a pooling.
        window: makes a window from `query_size` and `heads`.
    """

    score: Callable[..., Score]
    normalizer: Callable[[], Normalizer] = Softmax
    pooling: Callable[[], nn.Module] = Soft
    window: Callable[..., Window] = Global

    def __call__(
        self, query_size: int, key_size: int, heads: int | None = None, dropout: float = 0.0
    ) -> Attention:
        """An attention for queries and keys of these sizes, with a score for each head where given."""
        score = self.score(query_size=query_size, key_size=key_size, heads=heads)
        window = self.window(query_size=query_size, heads=heads)
        return Attention(score, self.normalizer(), self.pooling(), window, dropout)
