"""The line that all models share, `pool(normalise(score(query, key), mask · window), value)`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.attention.fast.dispatch import fast_path
from attention_lab.attention.fast.dropout import Dropout
from attention_lab.attention.memory import Call, Memory, check_query, make_memory
from attention_lab.attention.normalizers import Normalizer, Softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recorder import Recorder
from attention_lab.attention.scores import Score
from attention_lab.attention.windows import Global, Span, Window
from attention_lab.errors import LabError


class Attention(nn.Module):
    """Attention pooling `f(q) = sum_i a(q, k_i) v_i` with exchangeable parts.

    The fastest exact path to the context is taken: see `fast.dispatch`. Inside `recording` the weights of the
    examples looked at are computed beside it; the context is the same.

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
        return make_memory(self.score, key, value, mask, causal=causal)

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
            memory: keys and values from `remember`; its mask has one row for all queries or one for each.
            offset: position of the first query.
            bias: added to the scores, broadcastable to `[..., Q, K]`, as by relative positions.

        Raises:
            ValueError: for queries that do not fit the score or the mask.
        """
        check_query(query, memory, self.score.query_size)
        call = Call(self.window, query, memory, offset, bias)
        path = fast_path(self, call)
        if path is not None:
            context = path.context()
            self.look(query, memory, offset=offset, bias=bias)
            return context
        span = call.span
        weights = self.weigh(query, memory.keys, span, bias)
        if self.record is not None:
            self.record.add(weights, span.mask, span.centre)
        return self.pool(weights, memory.value)

    def weigh(self, query: Tensor, keys: Tensor, span: Span, bias: Tensor | None = None) -> Tensor:
        """`normalise(score(query, keys), mask) · window`: all weights, before dropout."""
        scores = self.score(query, keys)
        weights = self.normalizer(scores if bias is None else scores + bias, span.mask)
        return weights if span.factor is None else weights * span.factor

    def pool(self, weights: Tensor, value: Tensor) -> Tensor:
        """`pool(weights, value)`, in training with some weights dropped."""
        return self.pooling(self.dropout(weights), value)  # type: ignore[no-any-return]

    def weights(
        self, query: Float[Tensor, "... Q dq"], memory: Memory, *, offset: int = 0, bias: Tensor | None = None
    ) -> Float[Tensor, "... Q K"]:
        """The weights of all pairs, before dropout; zero for masked keys and in rows without a key."""
        return self.weigh(query, memory.keys, Call(self.window, query, memory, offset, bias).span, bias)

    def look(self, query: Tensor, memory: Memory, *, offset: int = 0, bias: Tensor | None = None) -> None:
        """Inside `recording`, compute and keep the weights of the examples that it looks at; no context."""
        if self.record is not None:
            self.record.look(self.weigh, Call(self.window, query, memory, offset, bias))

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Leave the calls inside out of a recording: they compute parts of a call that is recorded as one."""
        record, self.record = self.record, None
        try:
            yield
        finally:
            self.record = record


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
