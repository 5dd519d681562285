"""Check what the parts of an attention return, which may be classes of the user's own."""

import torch
from torch import Tensor

from attention_lab.attention.masks import has_values
from attention_lab.attention.scores import Score
from attention_lab.constructor_options import kind_of
from attention_lab.errors import PartError


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
    shape = weights.shape if isinstance(weights, Tensor) else ()
    if shape[-2:] != scores.shape[-2:] or len(shape) < scores.dim():  # a mask may have added dimensions
        raise PartError(
            f"{type(normalizer).__name__} must return weights {list(scores.shape)}, one for each score, "
            f"got {shape_or_kind(weights)}"
        )


def check_masked(weights: Tensor, mask: Tensor | None, normalizer: object) -> bool:
    """Raise PartError if a normaliser gives a masked key any weight: a causal model would see the future.

    Returns:
        Whether this could be checked: something is masked, and the tensors have values.
    """
    if type(normalizer).__module__.startswith("attention_lab."):
        return True  # the tests check ours
    if mask is None or not has_values(weights) or bool(mask.all()):
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


def shape_or_kind(returned: object) -> str:
    """What a part has returned, for an error: the shape of a tensor, or what it is instead."""
    return str(list(returned.shape)) if isinstance(returned, Tensor) else kind_of(returned)
