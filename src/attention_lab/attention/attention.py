"""The line that all models share: `pool(normalise(score(query, key), mask · window), value)`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.dropout import Dropout
from attention_lab.attention.fast.band import Blocks, band_attention, by_strips, make_blocks
from attention_lab.attention.fast.fused import fused_attention
from attention_lab.attention.fast.linear import linear_attention
from attention_lab.attention.masks import causal_mask, keeps_all
from attention_lab.attention.memory import Memory, check_memory, check_query
from attention_lab.attention.normalizers import Normalizer, Softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recorder import Recorder
from attention_lab.attention.scores import Score
from attention_lab.attention.windows import Band, Global, Span, Window
from attention_lab.errors import LabError


class Attention(nn.Module):
    """Attention pooling `f(q) = sum_i a(q, k_i) v_i` with exchangeable parts.

    The fastest exact path is taken: the fused kernel if the score is an inner product and the normaliser
    a softmax, sums over the keys if it is the logarithm of one; neither ever holds the weights. Within a
    band both work, as all others do, on strips of keys. Inside `recording` the weights are computed beside
    it, for the examples that are looked at; the context is the same.

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
        self.dropout = Dropout(dropout)
        if dropout and not isinstance(self.pooling, Soft):
            raise LabError(
                "model.attention_dropout drops weights, and hard pooling draws from them: "
                "set model.attention_dropout=0, or choose pooling=soft"
            )
        self.record: Recorder | None = None

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

        A mask is `[Q, K]`, the same everywhere, or has as many dimensions as the keys, each of the size that
        it has in the weights or 1. For keys `[B, K, dk]`, `[B, 1, K]` hides padding and `[B, Q, K]` masks
        each query. For keys `[B, H, K, dk]` these are `[B, 1, 1, K]` and `[B, 1, Q, K]`, and `[1, H, Q, K]`
        differs by head. Three dimensions are refused there, as they could be meant for examples or for
        heads. Keys `[K, dk]` take a mask of any number of dimensions.

        Args:
            key: keys.
            value: values.
            mask: boolean, broadcastable to `[..., Q, K]`, True = attend.
            causal: let a query see only the keys up to its own position.

        Raises:
            ValueError: for keys, values or a mask that do not belong together, and for an ambiguous mask.
        """
        value = key if value is None else value
        check_memory(key, value, mask, self.score.key_size)
        if mask is not None:
            if keeps_all(mask):
                mask = None
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
            memory: what `remember` has made of keys and values; its mask `[..., Q, K]` has one row for
                all queries or one for each.
            offset: position of the first query.
            bias: added to the scores, broadcastable to `[..., Q, K]`, as by relative positions.

        Raises:
            ValueError: for queries that do not fit the score or the mask.
        """
        check_query(query, memory, self.score.query_size)
        context, span = None, None
        if isinstance(self.pooling, Soft):
            context, span = self._fast(query, memory, offset, bias)
        if context is not None:
            self.look(query, memory, offset=offset, bias=bias)
            return context
        span = self._span(query, memory, offset) if span is None else span
        weights = self._weights(query, memory, span, bias)
        if self.record is not None:
            self.record.add(weights, span.mask, span.centre)
        pooled: Tensor = self.pooling(self.dropout(weights), memory.value)
        return pooled

    def look(
        self,
        query: Float[Tensor, "... Q dq"],
        memory: Memory,
        *,
        offset: int = 0,
        bias: Float[Tensor, "..."] | None = None,
    ) -> None:
        """Inside `recording`, compute and keep the weights of the examples that it looks at; no context."""
        record = self.record
        if record is None:
            return
        query, keys, value, mask, bias = record.of_batch(query, memory.keys, memory.value, memory.mask, bias)
        memory = Memory(keys, value, mask, memory.causal)
        kind = query.device.type
        # A parameter whose cast were cached here would have no gradient where it is used again.
        cast = torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=False)
        with torch.no_grad(), cast:
            span = self._span(query, memory, offset)
            record.keep(self._weights(query, memory, span, bias), span.mask, span.centre)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Keep what is done inside, to parts of what is looked at as a whole, out of a recording."""
        record, self.record = self.record, None
        try:
            yield
        finally:
            self.record = record

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

    def _fast(
        self, query: Tensor, memory: Memory, offset: int, bias: Tensor | None
    ) -> tuple[Tensor | None, Span | None]:
        """The context by a path that never holds all weights, None if there is none; and the span if made."""
        blocks = self._blocks(query, memory, offset) if bias is None else None
        if blocks is not None and isinstance(self.window, Band):
            factor = self.window.factor(blocks.distances(query.device), query.dtype)
            return self._within_band(query, memory, blocks, factor), None
        scale = self.normalizer.scale
        return (None, None) if scale is None else self._without_weights(query, memory, offset, bias, scale)

    def _blocks(self, query: Tensor, memory: Memory, offset: int) -> Blocks | None:
        """How to cut queries and keys if there is a band, and this is faster."""
        mask = memory.mask
        queries, keys = query.shape[-2], memory.keys.shape[-2]
        if not isinstance(self.window, Band) or self.score.is_placed:
            return None
        if mask is not None and mask.shape[-2:] != (1, keys):
            return None
        return make_blocks(queries, keys, self.window.width, causal=memory.causal, offset=offset)

    def _within_band(self, query: Tensor, memory: Memory, blocks: Blocks, factor: Tensor | None) -> Tensor:
        """The context by strips of keys, whose weights are multiplied by `factor` `[b, s]`."""
        keys, value, mask, _ = memory
        scale = self.normalizer.scale
        held = scale is None or factor is not None  # the fused kernel normalises and pools in one
        features = None if held else self.score.features(query, keys, mask)
        if scale is None or features is None:
            pooled = partial(self._pooled, factor=factor)
            return by_strips(pooled, query, keys, value, mask, blocks)
        dropout = self.dropout.p if self.training else 0.0
        return band_attention(*features, value, mask, blocks, scale=scale, dropout=dropout)

    def _pooled(
        self, query: Tensor, keys: Tensor, value: Tensor, mask: Tensor, *, factor: Tensor | None
    ) -> Tensor:
        weights = self.normalizer(self.score(query, keys), mask)
        weights = weights if factor is None else weights * factor
        pooled: Tensor = self.pooling(self.dropout(weights), value)
        return pooled

    def _without_weights(
        self, query: Tensor, memory: Memory, offset: int, bias: Tensor | None, scale: float
    ) -> tuple[Tensor | None, Span | None]:
        """The context by a path that never holds the weights, None if there is none; and the span if made."""
        dropout = self.dropout.p if self.training else 0.0
        if scale == 1 and not dropout and bias is None and isinstance(self.window, Global):
            context = self._linear(query, memory, offset)
            if context is not None:
                return context, None
        mask, span = memory.mask, None
        plain = memory.causal and offset == 0 and query.shape[-2] == memory.keys.shape[-2]
        plain = plain and mask is None and bias is None and isinstance(self.window, Global)
        if not plain:
            span = self._span(query, memory, offset)
            if span.factor is not None:
                return None, span
            mask = span.mask
        features = self.score.features(query, memory.keys, memory.mask)
        if features is None:
            return None, span
        context = fused_attention(
            *features, memory.value, mask, bias=bias, causal=plain, scale=scale, dropout=dropout
        )
        return context, span

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
