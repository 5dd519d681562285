"""Which parts a fast path may bypass: those whose shortcuts give what their `forward` computes.

Shortcuts are `Score.features`, `Score.kernel_features` and `Normalizer.softmax_scale`. A subclass that
overrides `forward` without the shortcut, such as a score that doubles the `forward` of `ScaledDot` but
inherits its `features`, gets no fast path; nor does a part with hooks of its own, which may change what it
computes and must be called. Global module hooks do not reach the parts whose fast path is taken.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from attention_lab.attention.checks.tensors import check_same_type
from attention_lab.attention.fast.dropout import Dropout
from attention_lab.attention.normalizers import Entmax15, Normalizer, Sigmoid, SinkSoftmax, Softmax, Sparsemax
from attention_lab.attention.pooling import Exact, Gumbel, Hard, Monotonic, Soft
from attention_lab.attention.scores import Constant, Dot, Linear, ScaledDot, Score
from attention_lab.attention.scores.score import checked_features
from attention_lab.attention.windows import LocalP

Part = TypeVar("Part", bound=nn.Module)

_SCORES = (Dot, ScaledDot, Linear, Constant)
"""Scores without parameters."""
_NORMALIZERS = (Softmax, SinkSoftmax, Sparsemax, Entmax15, Sigmoid)
_POOLINGS = (Soft, Hard, Gumbel, Exact, Monotonic)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def computes_as(part: object, kind: type[Part]) -> TypeGuard[Part]:
    """Whether a part is a `kind` and computes the formula of that class."""
    if not isinstance(part, kind) or _is_altered(part):
        return False
    return type(part).forward is kind.forward and type(part).__call__ is kind.__call__


def scale_of(normalizer: Normalizer) -> float | Tensor | None:
    """The factor on the scores if this is a plain softmax, the same for all keys; else None.

    A tensor, from a learned temperature, broadcasts to the scores. See `Normalizer`.
    """
    if not _describes_formula(normalizer, "softmax_scale"):
        return None
    return _of_all_keys(getattr(normalizer, "softmax_scale", None))


def scale_and_sink_of(normalizer: Normalizer) -> tuple[float | Tensor | None, Tensor | None]:
    """`scale_of` for a softmax that may have a sink, and the logit of the sink. See `SinkSoftmax`."""
    if computes_as(normalizer, SinkSoftmax):
        return _of_all_keys(1.0 / normalizer.temperature), normalizer.sink
    return scale_of(normalizer), None


def _of_all_keys(scale: float | Tensor | None) -> float | Tensor | None:
    """The factor; None if it differs between keys."""
    return None if isinstance(scale, Tensor) and scale.shape[-1:] not in ((), (1,)) else scale


def treats_heads_alike(score: Score, normalizer: Normalizer, pooling: nn.Module, dropout: nn.Module) -> bool:
    """Whether the context of a query is known not to depend on its head, nor on the other queries.

    If so, the queries of several heads may attend as the rows of one head.
    """
    return (
        type(score) in _SCORES
        and not _is_altered(score)
        and any(computes_as(normalizer, kind) for kind in _NORMALIZERS)
        and all(x.numel() == 1 for x in tensors_of(normalizer))
        and computes_as(pooling, Soft)
        and drops_single_weights(dropout)
    )


def has_parameters_for_heads(score: Score, normalizer: Normalizer, window: object) -> bool:
    """Whether one of them has parameters for several heads, so that weights have a dimension of heads."""
    if score.heads not in (None, 1) and any(True for _ in score.parameters()):
        return True
    tensors = [*tensors_of(normalizer), *([window.scaled_weight] if isinstance(window, LocalP) else [])]
    return any(x.dim() > 2 and x.shape[-3] > 1 for x in tensors)


def tensors_of(normalizer: Normalizer) -> list[Tensor]:
    """The temperature and the sink of a normaliser, if they are tensors, which may differ between heads."""
    own = (getattr(normalizer, name, None) for name in ("temperature", "sink"))
    return [x for x in own if isinstance(x, Tensor)]


def drops_single_weights(dropout: nn.Module) -> bool:
    """Whether a dropout is known to drop each weight independently of the others."""
    return computes_as(dropout, Dropout) or computes_as(dropout, nn.Dropout)


def ignores_hidden_keys(normalizer: Normalizer, pooling: nn.Module | None = None) -> bool:
    """Whether masked keys may be left out because the context is known not to depend on them.

    With another normaliser or pooling, the number of keys may matter, or the value of a key of weight zero.
    """
    temperature = getattr(normalizer, "temperature", None)
    if isinstance(temperature, Tensor) and temperature.shape[-2:].numel() != 1:  # one for each query or key
        return False
    known = scale_of(normalizer) is not None or any(computes_as(normalizer, kind) for kind in _NORMALIZERS)
    return known and (pooling is None or any(computes_as(pooling, kind) for kind in _POOLINGS))


def features_of(
    score: Score, query: Tensor, keys: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """The features whose inner product is the score, or None if there are none. See `Score.features`.

    Raises:
        ValueError: the features of queries and keys differ in size or dtype.
    """
    if not _describes_formula(score, "features"):
        return None
    features = score.features(query, keys, mask)
    if features is not None and not torch.compiler.is_compiling():
        of_query, of_key = checked_features(score, features)
        if of_query.shape[-1] != of_key.shape[-1]:
            raise ValueError(
                f"{type(score).__name__}.features must give queries and keys features of the same size, "
                f"not {list(of_query.shape)} and {list(of_key.shape)}"
            )
        check_same_type(of_query, of_key, query, keys)
    return features


def kernel_features_of(score: Score, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor] | None:
    """The features whose inner product is the exponential of the score. See `Score.kernel_features`."""
    return score.kernel_features(query, keys) if _describes_formula(score, "kernel_features") else None


def _describes_formula(part: object, shortcut: str) -> bool:
    """Whether the class of a part defines the shortcut, and no subclass or hook alters the formula."""
    if _is_altered(part):
        return False
    if torch.compiler.is_compiling():  # the compiler warns about caches
        return _defines_with_formula(type(part), shortcut)
    return _remembered(type(part), shortcut)


def _is_altered(part: object) -> bool:
    """Whether this object alone computes something other than its class, by a hook or its own `forward`."""
    own = getattr(part, "__dict__", {})
    return "forward" in own or any(map(own.get, _HOOKS))


def _defines_with_formula(kind: type, shortcut: str) -> bool:
    formula = min(_depth(kind, "forward"), _depth(kind, "__call__"))
    return hasattr(kind, shortcut) and _depth(kind, shortcut) <= formula


_remembered: Callable[[type, str], bool] = cache(_defines_with_formula)


def _depth(kind: type, name: str) -> int:
    """How many classes lie between a class and the one that defines a name."""
    for depth, one in enumerate(kind.__mro__):
        if name in vars(one):
            return depth
    return len(kind.__mro__)
