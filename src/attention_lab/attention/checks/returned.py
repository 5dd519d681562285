"""Check what the parts of an attention return: a part may be the user's own class."""

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.checks.tensors import broadcast
from attention_lab.attention.scores import Score
from attention_lab.attention.windows import Span
from attention_lab.errors import PartError


def check_keys(keys: object, score: Score, key: Tensor) -> None:
    """Raise PartError if the keys that a score has prepared are not a tensor with a row for each key."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(keys, Tensor) or keys.dim() < 2 or keys.shape[-2] != key.shape[-2]:
        raise PartError(
            f"{type(score).__name__}.keys must return a tensor [..., {key.shape[-2]}, f] for keys "
            f"{list(key.shape)}, got {shape_or_kind(keys)}"
        )


def check_scores(scores: object, score: Score, query: Tensor, keys: Tensor) -> None:
    """Raise PartError if a score does not return a number for every query and key."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        given = str(scores.dtype) if isinstance(scores, Tensor) else kind_of(scores)
        raise PartError(f"{type(score).__name__} must return floating-point scores, not {given}")
    expected = query.shape[-2], keys.shape[-2]
    if scores.shape[-2:] != expected:
        raise PartError(
            f"{type(score).__name__} must return scores [..., {expected[0]}, {expected[1]}] for queries "
            f"{list(query.shape)} and keys {list(keys.shape)}, got {list(scores.shape)}"
        )


def check_weights(weights: object, normalizer: object, scores: Tensor) -> None:
    """Raise PartError if a normaliser does not return a weight for every score."""
    if torch.compiler.is_compiling():
        return
    shape = weights.shape if isinstance(weights, Tensor) else torch.Size()
    # A mask, or a parameter for each head, may add dimensions or widen one of size 1.
    sizes = zip(reversed(scores.shape[:-2]), reversed(shape[:-2]), strict=False)
    agree = shape[-2:] == scores.shape[-2:] and all(size in (1, given) for size, given in sizes)
    if not agree or len(shape) < scores.dim():
        raise PartError(
            f"{type(normalizer).__name__} must return weights {list(scores.shape)}, one for each score, "
            f"got {shape_or_kind(weights)}"
        )
    _check_real(weights, normalizer, "weights")


def check_span(span: object, window: object, queries: int, keys: int) -> None:
    """Raise PartError if a window returns anything but a `Span`, or a mask that is not `[..., Q, K]`."""
    name = type(window).__name__
    if not isinstance(span, Span):
        given = type(span).__name__
        raise PartError(f"{name} must return a Span, such as Span(mask), True = inside, not {given}")
    if torch.compiler.is_compiling():
        return
    mask, factor = span.mask, span.factor
    right = isinstance(mask, Tensor) and mask.dtype == torch.bool
    if mask is not None and not (right and broadcast(mask.shape[-2:], (queries, keys))):
        raise PartError(_wrong_span("mask", name, f"boolean and [..., {queries}, {keys}]", mask))
    right = isinstance(factor, Tensor) and factor.is_floating_point()
    if factor is not None and not (right and broadcast(factor.shape[-2:], (queries, keys))):
        raise PartError(_wrong_span("factor", name, f"floating-point and [..., {queries}, {keys}]", factor))


def _wrong_span(part: str, name: str, wanted: str, given: object) -> str:
    found = f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else kind_of(given)
    return f"the {part} in the Span of {name} must be {wanted}, got {found}"


def check_masked(weights: Tensor, mask: Tensor | None, normalizer: object) -> bool:
    """Raise PartError if a normaliser gives a masked key any weight: a causal model would see the future.

    Returns:
        Whether this could be checked: something is masked.
    """
    if mask is None or not weights.numel() or bool(mask.all()):
        return False
    largest = weights.detach().masked_fill(mask, 0).abs().max().item()
    if largest != 0:
        name = type(normalizer).__name__
        raise PartError(
            f"{name} must give masked keys a weight of 0, got {largest:.3g}: "
            "end with weights.masked_fill(~mask, 0)"
        )
    return True


def check_context(context: object, pooling: object, weights: Tensor, value: Tensor) -> None:
    """Raise PartError if a pooling does not return a vector of the values' size for every query."""
    if torch.compiler.is_compiling():
        return
    expected = [*weights.shape[:-1], value.shape[-1]]
    shape = list(context.shape) if isinstance(context, Tensor) else []
    if shape[-2:] != expected[-2:] or len(shape) < len(expected):
        raise PartError(
            f"{type(pooling).__name__} must return contexts {expected} for weights {list(weights.shape)} and "
            f"values {list(value.shape)}, got {shape_or_kind(context)}"
        )
    _check_real(context, pooling, "contexts")


def _check_real(returned: object, part: object, what: str) -> None:
    """Raise PartError if a part has returned a tensor that is not floating-point."""
    if isinstance(returned, Tensor) and not returned.is_floating_point():
        raise PartError(f"{type(part).__name__} must return floating-point {what}, not {returned.dtype}")


def shape_or_kind(returned: object) -> str:
    """How an error describes a returned value: the shape of a tensor, or the type of anything else."""
    return str(list(returned.shape)) if isinstance(returned, Tensor) else kind_of(returned)
