"""Weights that are multiplied elementwise with values, in a product that is then summed over the keys."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.known_tensors import (
    Scores,
    Weighted,
    Weights,
    is_plain,
)


def possible_keys(factor: Tensor, values: Tensor) -> Iterable[int]:
    """The dimensions of a factor that may be those of the keys, counted from the end."""
    feature = _feature(factor, values)
    if feature is None or factor.shape[feature] > 1:
        return ()
    return (dim for dim in range(-factor.dim(), 0) if factor.shape[dim] == values.shape[dim])


def times_values(weights: Weights, factor: Tensor, values: Tensor) -> Weighted | None:
    """Weights that are multiplied with values; None if they may differ between the features of a value.

    The queries are in the last dimension that the values lack. Without one, or if it may be that of heads,
    the dimension of the features stands for a single query.
    """
    feature, key, count = _feature(factor, values), weights.key, factor.dim()
    if feature is None or feature == key or factor.shape[key] != values.shape[key]:
        return None
    lead = [dim for dim in range(-count, 0) if dim not in (feature, key)]
    queries = [dim for dim in lead if _may_be_query(weights, factor, values, dim)][-1:]
    if not queries:
        weights, factor = _views(weights, factor, lambda x: x.narrow(feature, 0, 1))
        order = tuple(dim + count for dim in (*lead, feature, key))
        return Weighted(weights, factor, order, values, pooled=True, key=key)
    order = tuple(
        dim + count - (dim > feature) for dim in (*(one for one in lead if one not in queries), *queries, key)
    )
    weights, factor = _views(weights, factor, lambda x: x.select(feature, 0))
    weights = replace(weights, key=order[-1] - factor.dim())
    return Weighted(weights, factor, order, values, pooled=False, key=key)


def _feature(factor: Tensor, values: Tensor) -> int | None:
    """The dimension of the features of a value, which share a weight; None if it cannot be determined."""
    if factor.dim() != values.dim() or not values.is_floating_point():  # a mask
        return None
    if not (is_plain(factor) and is_plain(values)):
        return None
    dims = range(-factor.dim(), 0)
    features = [dim for dim in dims if values.shape[dim] > factor.shape[dim] == 1]
    features = features or [dim for dim in dims if _size(values, dim) > _size(factor, dim) == 1]
    return features[0] if len(features) == 1 else None


def _may_be_query(weights: Weights, factor: Tensor, values: Tensor, dim: int) -> bool:
    """Whether a dimension may be that of the queries, not that of heads whose scores a layer computes."""
    scores = weights.map.scores
    if not weights.map.of_positions or (isinstance(scores, Scores) and scores.heads is not None):
        return False
    return _size(values, dim) == 1 and (factor.shape[dim] > 1 or dim > -factor.dim())


def _size(x: Tensor, dim: int) -> int:
    """The size of a dimension, or 1 if it was repeated by `expand`."""
    return x.shape[dim] if x.stride(dim) else 1


def _views(weights: Weights, factor: Tensor, view: Callable[[Tensor], Tensor]) -> tuple[Weights, Tensor]:
    """The view of weights, and of all that is known of them."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        before, mask = (None if x is None else view(x) for x in (weights.before, weights.mask))
        return replace(weights, before=before, mask=mask), view(factor.detach())
