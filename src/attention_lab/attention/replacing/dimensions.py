"""Tensors of any number of dimensions, as `scaled_dot_product_attention` takes them, in four."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class FourDimensions(NamedTuple):
    """The tensors of a call.

    Attributes:
        query: `[B, H, Q, d]`.
        key: `[B, G, K, d]`.
        value: `[B, G, K, dv]`.
        mask: boolean, True = attend, or added to the scores: `[B | 1, H | 1, Q | 1, K]`.
        shape: the sizes of the context before `[Q, dv]`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    shape: torch.Size


def in_four_dimensions(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, grouped: bool = False
) -> FourDimensions:
    """Broadcast and fold the dimensions before the last two.

    The last of them is the one of the heads. If there is only one, it is that of the examples, unless the
    call is for grouped heads.

    Raises:
        TypeError: nested tensors.
    """
    if query.is_nested or key.is_nested:
        raise TypeError("a mechanism does not take nested tensors: pad them")
    kept = 3 if grouped else 2  # heads of queries and keys may differ in number
    shapes = [x.shape[:-kept] for x in (query, key, value)]
    if not shapes[0] == shapes[1] == shapes[2]:
        lead = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        query, key, value = (x.expand(*lead, *x.shape[-kept:]) for x in (query, key, value))
    shape = query.shape[:-2]
    if mask is not None:
        mask = mask.expand(*mask.shape[:-1], key.shape[-2])
        if len(shape) == 2:  # as nearly always: broadcast later
            mask = mask[(None,) * (4 - mask.dim())]
        else:
            mask = _folded(mask.expand(*shape, *mask.shape[-2:]), grouped)
    query, key, value = (_folded(x, grouped) for x in (query, key, value))
    return FourDimensions(query, key, value, mask, shape)


def _folded(x: Tensor, grouped: bool) -> Tensor:
    if x.dim() == 4:
        return x
    *examples, heads = x.shape[:-2] if x.dim() > 3 or grouped else (*x.shape[:-2], 1)
    return x.reshape(math.prod(examples), heads, *x.shape[-2:])  # no size is -1: another may be 0
