"""The formula that all models share, `pool(normalise(score(query, key), mask · window), value)`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.attention.checks.parts import check_makers, check_parts, check_window_size
from attention_lab.attention.checks.queries import check_query
from attention_lab.attention.checks.returned import check_context, check_masked, check_scores, check_weights
from attention_lab.attention.fast.dispatch import fast_path
from attention_lab.attention.fast.dropout import Dropout
from attention_lab.attention.memory import Call, Memory, make_memory
from attention_lab.attention.normalizers import Normalizer, Softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recorder import Recorder
from attention_lab.attention.scores import Score
from attention_lab.attention.torch_state import has_values
from attention_lab.attention.windows import Global, Span, Window
from attention_lab.errors import LabError


class Attention(nn.Module):
    """Attention pooling `f(q) = sum_i a(q, k_i) v_i` with interchangeable parts.

    The context is computed by the fastest exact path (see `fast.dispatch`). Inside `recording`, the weights
    of the recorded examples are computed alongside it; the context stays the same.

    Args:
        score: the scoring function.
        normalizer: turns scores and mask into weights; by default `Softmax`.
        pooling: turns weights and values into the context; by default `Soft`, the weighted mean.
        window: restricts by position which keys a query may attend to; by default `Global`, no restriction.
        dropout: probability with which a weight is dropped in training, after normalisation.

    Raises:
        TypeError: a part is a class rather than an instance, or cannot be called like a part of its kind
            (torch's softmax, for example, takes no mask); or the score is not a `Score`.
        ValueError: the window was made for queries of a different size.
    """

    _obeys_masks: type | None = None  # the normaliser's class, once known to give masked keys no weight
    part_of_layer: str | None = None
    """The attribute of the layer that holds this attention, if recordings are to use the layer's name."""

    def __init__(
        self,
        score: Score,
        normalizer: Normalizer | None = None,
        pooling: nn.Module | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_parts(score, normalizer=normalizer, pooling=pooling, window=window)
        check_window_size(window, score)
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        kind = type(self.normalizer)
        self._obeys_masks = kind if kind.__module__.startswith("attention_lab.") else None
        self.pooling = Soft() if pooling is None else pooling
        self.window = Global(score.query_size) if window is None else window
        check_number("dropout", dropout, least=0)
        self.dropout = Dropout(dropout)
        if dropout and not isinstance(self.pooling, Soft):
            raise LabError(
                f"weights can be dropped only with soft pooling, not {type(self.pooling).__name__}: "
                "set model.attention_dropout=0 (in Python, the attention's dropout), or choose pooling=soft"
            )
        self.record: Recorder | None = None

    def unwrapped(self) -> "Attention":
        """This attention or, if its score is wrapped, a copy with the score that the wrapper currently uses.

        In a classifier, PEFT wraps every module called `score`, because some models give their last layer
        this name. A wrapper forwards attributes that it lacks to the module in use.
        """
        score: object = self.score
        if isinstance(score, Score):
            return self
        found = copy(self)
        found._modules = {**self._modules, "score": getattr(self.score.features, "__self__", None)}
        return found

    def remember(
        self,
        key: Float[Tensor, "... K dk"],
        value: Float[Tensor, "... K dv"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        causal: bool = False,
    ) -> Memory:
        """Prepare keys and values (by default the keys) to be attended to any number of times.

        Keys and values that no query may see are set to zero, so not even NaN or infinity in padding leaks.

        A mask is either `[Q, K]`, shared by the whole batch, or has as many dimensions as the keys, each of
        the same size as in the weights or 1. It is never `[B, K]`, even if B equals Q. For keys `[B, K, dk]`,
        `[B, 1, K]` hides padding and `[B, Q, K]` masks each query. For keys `[B, H, K, dk]` these are
        `[B, 1, 1, K]` and `[B, 1, Q, K]`, and `[1, H, Q, K]` masks each head. A mask of three dimensions is
        rejected there, because the first could mean examples or heads. Keys `[K, dk]` take a mask of any
        number of dimensions.

        Args:
            key: keys.
            value: values.
            mask: boolean, broadcastable to `[..., Q, K]`, True = attend.
            causal: let a query see only the keys up to its own position.

        Raises:
            TypeError: keys, values or mask are not tensors, or are nested tensors; or `causal` is a mask.
            ValueError: keys, values and mask do not fit together or are on different devices, the mask is
                ambiguous, values are integers, or the score's parameters differ from the keys in dtype.
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
        """Compute the context of every query; zero for a query that may attend to no key.

        Args:
            query: the queries, at the positions `offset`, `offset + 1`, ...
            memory: keys and values from `remember`; its mask has one row for all queries or one for each.
            offset: position of the first query.
            bias: added to the scores, broadcastable to `[..., Q, K]`, for example for relative positions.

        Raises:
            TypeError: the queries are not a tensor, or are a nested tensor; the memory does not come from
                `remember`; or the bias is a boolean mask.
            ValueError: the queries do not fit the score, the keys, the mask or the bias, or differ from the
                keys or the score's parameters in dtype or device.
            LabError: the offset is not a whole number.
            PartError: a part returns the wrong shape, or gives weight to a masked key. This is also a
                ValueError.
        """
        check_query(query, memory, self.score.query_size, bias, offset)
        call = Call(self.window, query, memory, offset, bias)
        path = fast_path(self, call) if self.has_the_formula() else None
        if path is not None:
            context = path.context()
            self.record_weights(query, memory, offset=offset, bias=bias)
            return context
        span = call.span
        weights = self.weigh(query, memory.keys, span, bias)
        if self.record is not None:
            self.record.add(weights, span.mask, span.centre)
        return self.pool(weights, memory.value)

    def weigh(self, query: Tensor, keys: Tensor, span: Span, bias: Tensor | None = None) -> Tensor:
        """`normalise(score(query, keys), mask) · window`: all weights, before dropout."""
        scores = self.score(query, keys)
        check_scores(scores, self.score, query, keys)
        scores = scores if bias is None else scores + bias
        weights = self.normalizer(scores, span.mask)
        check_weights(weights, self.normalizer, scores)
        kind = type(self.normalizer)
        # checked once per class: on a GPU, looking at the values forces a synchronisation
        unchecked = self._obeys_masks is not kind and has_values(weights)
        if unchecked and check_masked(weights, span.mask, self.normalizer):
            self._obeys_masks = kind
        return weights if span.factor is None else weights * span.factor

    def pool(self, weights: Tensor, value: Tensor) -> Tensor:
        """`pool(weights, value)`; in training, some weights are dropped first."""
        context: Tensor = self.pooling(self.dropout(weights), value)
        check_context(context, self.pooling, weights, value)
        return context

    def weights(
        self, query: Float[Tensor, "... Q dq"], memory: Memory, *, offset: int = 0, bias: Tensor | None = None
    ) -> Float[Tensor, "... Q K"]:
        """The weights of all pairs, before dropout; zero for masked keys and in rows without a key."""
        check_query(query, memory, self.score.query_size, bias, offset)
        return self.weigh(query, memory.keys, Call(self.window, query, memory, offset, bias).span, bias)

    def record_weights(
        self, query: Tensor, memory: Memory, *, offset: int = 0, bias: Tensor | None = None
    ) -> None:
        """Inside `recording`, compute and keep the weights of the recorded examples; returns no context."""
        if self.record is not None:
            self.record.record_call(self.weigh, Call(self.window, query, memory, offset, bias))

    def has_the_formula(self) -> bool:
        """Whether neither a subclass nor this instance overrides a step of the formula."""
        kind, own = type(self), self.__dict__
        inherited = kind.weigh is Attention.weigh and kind.pool is Attention.pool
        return inherited and "weigh" not in own and "pool" not in own

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Hide the calls inside from recordings: they are parts of a call that is recorded as a whole."""
        recorders = [] if self.record is None else self.record.of_this_thread()
        for one in recorders:
            one.paused += 1
        try:
            yield
        finally:
            for one in recorders:
                one.paused -= 1


@dataclass(frozen=True)
class Mechanism:
    """A choice of score, normaliser, pooling and window, before any sizes are known.

    Attributes:
        score: makes a score from `query_size`, `key_size` and `heads`.
        normalizer: makes a normaliser, from `heads` if it has such an argument.
        pooling: makes a pooling.
        window: makes a window from `query_size` and `heads`.
    """

    score: Callable[..., Score]
    normalizer: Callable[..., Normalizer] = Softmax
    pooling: Callable[[], nn.Module] = Soft
    window: Callable[..., Window] = Global

    def __post_init__(self) -> None:
        check_makers(score=self.score, normalizer=self.normalizer, pooling=self.pooling, window=self.window)

    def __repr__(self) -> str:
        parts = [(field, getattr(self, field.name)) for field in fields(self)[1:]]
        others = [f"{field.name}={_name(part)}" for field, part in parts if part is not field.default]
        return f"Mechanism({', '.join([_name(self.score), *others])})"

    def __call__(
        self, query_size: int, key_size: int, heads: int | None = None, dropout: float = 0.0
    ) -> Attention:
        """Build an attention for queries and keys of these sizes; with `heads`, each has its own score.

        Raises:
            TypeError: a class of your own does not accept an argument that it is built with, such as `heads`.
        """
        score = _made("score", self.score, query_size=query_size, key_size=key_size, heads=heads)
        window = _made("window", self.window, query_size=query_size, heads=heads)
        per_head = {"heads": heads} if _takes_heads(self.normalizer) else {}
        normalizer = _made("normalizer", self.normalizer, **per_head)
        return Attention(score, normalizer, _made("pooling", self.pooling), window, dropout)


def _takes_heads(maker: Callable[..., Any]) -> bool:
    """Whether a maker takes `heads`, and has not bound it by position."""
    try:
        return "heads" in signature(maker).parameters
    except ValueError:  # a partial with an option that its class does not have: calling it raises the error
        return False


def _made(part: str, maker: Callable[..., Any], **given: int | None) -> Any:
    """Make a part of a mechanism. If its class does not accept the arguments, the error lists them."""
    try:
        return maker(**given)
    except TypeError as error:
        arguments = ", ".join(given) or "no arguments besides its options"
        error.add_note(f"Mechanism({part}=...) makes its part by calling {_name(maker)} with {arguments}")
        raise


def _name(maker: object) -> str:
    """How a part of a mechanism is written: `Band`, or `partial(Band, width=3)`."""
    if isinstance(maker, partial):
        options = [repr(one) for one in maker.args]
        options += [f"{name}={value!r}" for name, value in maker.keywords.items()]
        return f"partial({', '.join([_name(maker.func), *options])})"
    return maker.__name__ if isinstance(maker, type) else repr(maker)


def check_mechanism(mechanism: object) -> None:
    """Raise TypeError for anything but a `Mechanism`, such as the class of a score."""
    if not isinstance(mechanism, Mechanism):
        like = mechanism.__name__ if isinstance(mechanism, type) else "ScaledDot"
        raise TypeError(f"mechanism must be a Mechanism, such as Mechanism({like}), not {kind_of(mechanism)}")
