"""Fold tensors of any number of dimensions, as `scaled_dot_product_attention` takes them, into four."""

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
        shape: the sizes of the context before `[Q, dv]`, that of the heads last.
        heads: the index of the heads' dimension in the call; None if it was the last of these.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    shape: torch.Size
    heads: int | None

    def restored(self, context: Tensor) -> Tensor:
        """The context `[B, H, Q, dv]` in the dimensions of the call."""
        context = context.reshape(*self.shape, *context.shape[-2:])
        return context if self.heads is None else context.movedim(-3, self.heads)


def in_four_dimensions(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    grouped: bool = False,
    heads: int | None = None,
) -> FourDimensions:
    """Broadcast and fold the dimensions before the last two.

    The heads are in the last of these dimensions. If there is only one, it holds the examples instead, unless
    the call is for grouped heads. If there are three or more, and exactly one of them after the first has the
    known number of heads as its size, the heads are in that one.

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
    place = None if grouped or len(shape) < 3 else _place_of_heads(shape, heads)
    if mask is not None:
        mask = mask.expand(*mask.shape[:-1], key.shape[-2])
        if len(shape) == 2:  # the usual case: the mask broadcasts later
            mask = mask[(None,) * (4 - mask.dim())]
        else:
            mask = mask.expand(*shape, *mask.shape[-2:])
            mask = _folded(mask if place is None else mask.movedim(place, -3), grouped)
    if place is not None:
        query, key, value = (x.movedim(place, -3) for x in (query, key, value))
        shape = query.shape[:-2]
    query, key, value = (_folded(x, grouped) for x in (query, key, value))
    return FourDimensions(query, key, value, mask, shape, place)


def _place_of_heads(shape: torch.Size, heads: int | None) -> int | None:
    """The dimension of the heads; None if it is the last one. A dimension of blocks may follow it."""
    places = [place for place in range(1, len(shape)) if shape[place] == heads]
    return places[0] if len(places) == 1 and places[0] < len(shape) - 1 else None


def _folded(x: Tensor, grouped: bool) -> Tensor:
    if x.dim() == 4:
        return x
    *examples, heads = x.shape[:-2] if x.dim() > 3 or grouped else (*x.shape[:-2], 1)
    return x.reshape(math.prod(examples), heads, *x.shape[-2:])  # -1 would be ambiguous next to a size of 0
