"""Weights that a model masks, selects or otherwise changes after the softmax."""

from dataclasses import replace

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.calls import MIXING, NORMALIZE, TorchCall
from attention_lab.attention.recording.by_hand.known_tensors import Map, Weights


def zeros(weights: Weights, x: Tensor) -> Tensor | None:
    """Where the weights `x` are zero, before dropout; None if they are logarithms."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return None if weights.logarithm else _before_dropout(weights, x) == 0


def with_zeros_masked(weights: Weights, x: Tensor, zero: Tensor) -> Weights:
    """Mask the weights `x` that have become zero, where `zero` says which were zero before."""
    if weights.mask is None:
        return weights
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return replace(weights, mask=weights.mask & (zero | (_before_dropout(weights, x) != 0)))


def key_and_mask(
    weights: Weights, call: TorchCall, found: Tensor, result: Tensor
) -> tuple[int | None, Tensor | None]:
    """The dimension of the keys in the result of a function of the weights `found`, and the mask.

    The dimension is None if the result no longer holds weights.
    """
    key: int | None = weights.key
    if call.is_view:
        key = call.moved(weights.key, found)
        return key, None if weights.mask is None or key is None else call.of(found, weights.mask)
    if call.func in NORMALIZE:
        return call.divided_by_sum, weights.mask
    same_shape = result.shape == found.shape
    if call.func in MIXING:
        features = found.shape[call.mixed] == 1 and not same_shape  # computed from each weight
        return None if features or key == call.mixed or found is not call.first else key, None
    return key if same_shape else None, weights.mask


def in_map(weights: Weights, x: Tensor, call: TorchCall, found: Tensor, key: int) -> Weights:
    """The weights `x` with their map, which is a new one if the function has changed or rearranged them.

    Args:
        weights: what is known of the weights.
        x: the weights, which the function has returned.
        call: the function.
        found: the weights that it was called with.
        key: the dimension of `found` that runs over the keys.
    """
    if not call.is_view:
        return weights if call.keeps_weights else as_map(weights, x)
    sliced = found.shape == weights.map.weights.shape and (x.dim(), weights.key) == (found.dim(), key)
    return weights if sliced else as_map(weights, x)


def mixed(weights: Weights, call: TorchCall, found: Tensor, key: int) -> Weights:
    """What is known of the product of the weights `found` with a matrix that mixes their heads.

    Args:
        weights: what is known of `found`.
        call: the product.
        found: one of its factors.
        key: the dimension of the product that runs over the keys.
    """
    before = None if "out" in call.kwargs else weights.before
    if before is not None:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            before = call.of(found, before)
    return replace(weights, key=key, mask=None, before=before)


def as_map(weights: Weights, x: Tensor) -> Weights:
    """The weights `x` as a map of their own."""
    x = _before_dropout(weights, x).detach()
    source = weights.map.source or weights.map
    made = Map(source.site, source.scores, x, weights.mask, x.shape[weights.key], source=source)
    return replace(weights, map=made)


def _before_dropout(weights: Weights, x: Tensor) -> Tensor:
    return x if weights.before is None else weights.before
