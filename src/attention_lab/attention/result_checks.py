"""Check what the parts of an attention return, which may be classes of the user's own."""

import torch
from torch import Tensor

from attention_lab.attention.scores import Score
from attention_lab.constructor_options import kind_of


def check_scores(scores: object, score: Score, query: Tensor, keys: Tensor) -> None:
    """Raise ValueError if a score does not return a number for every query and key."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        given = str(scores.dtype) if isinstance(scores, Tensor) else kind_of(scores)
        raise ValueError(f"{type(score).__name__} must return floating-point scores, not {given}")
    expected = query.shape[-2], keys.shape[-2]
    if scores.shape[-2:] != expected:
        raise ValueError(
            f"{type(score).__name__} must return scores [..., {expected[0]}, {expected[1]}] for queries "
            f"{list(query.shape)} and keys {list(keys.shape)}, got {list(scores.shape)}"
        )


def check_weights(weights: object, normalizer: object, scores: Tensor) -> None:
    """Raise ValueError if a normaliser does not return a weight for every score."""
    if torch.compiler.is_compiling():
        return
    shape = weights.shape if isinstance(weights, Tensor) else ()
    if shape[-2:] != scores.shape[-2:] or len(shape) < scores.dim():  # a mask may have added dimensions
        raise ValueError(
            f"{type(normalizer).__name__} must return weights {list(scores.shape)}, one for each score, "
            f"got {shape_or_kind(weights)}"
        )


def shape_or_kind(returned: object) -> str:
    """What a part has returned, for an error: the shape of a tensor, or what it is instead."""
    return str(list(returned.shape)) if isinstance(returned, Tensor) else kind_of(returned)
