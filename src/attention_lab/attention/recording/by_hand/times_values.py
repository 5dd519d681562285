"""Recording of weights that are multiplied with values, if they are attention."""

from functools import partial

import torch
from torch import Tensor, nn

from attention_lab.attention.recording.by_hand.known_tensors import Map, Product, Scores, Weighted
from attention_lab.attention.recording.fused import split_heads
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.site import Site
from attention_lab.attention.torch_state import has_values


def record_times_values(
    session: Session, product: Weighted, known: object, *, heads_first: bool = False
) -> Product | None:
    """Record weights times values; returns what is then known of the result.

    Without a dimension for queries, a mixture of experts looks the same, so weights then count as attention
    only if each score belongs to a position.

    Args:
        session: the recording.
        product: the weights and the values.
        known: what is known of the values.
        heads_first: heads come before examples in their first dimension.
    """
    weights, factor, order = product.weights, product.factor, product.order
    found = weights.map
    if isinstance(known, Product) and known.plain and not found.paired:
        if known.forget is not None:  # keys times values of linear attention, now multiplied with queries
            known.forget()
        return None
    if product.pooled and not found.of_positions:
        return None
    if (product.pooled or not found.paired) and not _has_heads_of(found, factor, order):
        return None
    values, mask = factor.detach() if weights.before is None else weights.before, weights.mask
    is_part = values.dim() == found.weights.dim() and values.numel() < found.weights.numel()
    if found.used:
        if not is_part or found.forget is None:
            return None
        found.forget()
    if is_part and (found.forget is not None or values.shape[weights.key] == found.keys):
        values, mask = found.weights, found.mask  # parts are multiplied one by one: record all of them
    with torch._C.DisableTorchFunction(), torch.no_grad():
        # Without a dimension for queries, heads are not joined with the examples.
        windows = _may_have_windows(product.values, order)
        heads = partial(
            _with_heads,
            joined=not product.pooled,
            heads_first=heads_first,
            windows=windows,
            shared=product.values.dim() == 3,
        )
        mask = None if mask is None or mask.shape != values.shape else mask
        normalised = (found.source or found).weights
        if order == (0, 1, 2) and _have_joined_queries(values, normalised):
            order = (0, 1, 2, 3)
            values, mask = values.view_as(normalised), None if mask is None else mask.view_as(normalised)
        mask = None if mask is None else heads(mask, order, found.site)
        values = heads(values, order, found.site)
        found.forget = session.record_weights(found.site, values, mask)
    found.recorded = True
    if found.source is not None and found.source.weights.numel() <= values.numel():  # else one part of it
        found.source.recorded = True
    # One query makes no matrix of keys times values: the product may be a value of the next attention.
    return None if found.paired or values.shape[2] == 1 else Product(forget=found.forget, query=product.query)


def of_example(x: Tensor, weights: Tensor) -> bool:
    """Whether a factor may depend on the example: it has a dimension for examples, or no factor has one."""
    if isinstance(x, nn.Parameter) or x.dim() < 2:
        return False
    return x.dim() > 2 if weights.dim() > 2 else not isinstance(x._base, nn.Parameter)


def _has_heads_of(found: Map, x: Tensor, order: tuple[int, ...]) -> bool:
    """Whether weights have one head, or as many as their module says, unlike mixtures at each position."""
    heads = found.site.number_of_heads
    if len(order) < 4:
        return heads in (None, 1) or found.of_positions
    if heads is None and isinstance(found.scores, Scores) and found.scores.heads is not None:
        return True
    if len(order) == 4 and not found.of_positions:  # the examples may be as many as the heads
        return x.shape[order[1]] == heads
    return _with_heads(x, order, found.site).shape[1] == heads


def _may_have_windows(values: Tensor, order: tuple[int, ...]) -> bool:
    """Whether the second dimension of the values may be that of windows: heads are split from features.

    Heads that were split from features have a smaller stride than positions, until the values are copied.
    """
    return values.dim() == len(order) == 4 and values.stride(1) > values.stride(2)


def _have_joined_queries(x: Tensor, normalised: Tensor) -> bool:
    """Whether heads and queries, separate when the weights were normalised, have been joined since.

    Multi-query attention (1911.02150) joins them for its product with the values that all heads share.
    """
    if normalised.dim() != 4 or len(x) != len(normalised) or not has_values(x):
        return False
    return torch.equal(normalised.flatten(1, 2), x)


def _with_heads(
    x: Tensor,
    order: tuple[int, ...],
    site: Site,
    *,
    joined: bool = True,
    heads_first: bool = False,
    windows: bool = False,
    shared: bool = False,
) -> Tensor:
    """Weights as `[B, H, Q, K]`; examples and heads may be `joined` in the first of three dimensions.

    In the first of four, they may be joined if the second can be that of `windows`, or not that of heads.
    If all heads have `shared` values, the second may be that of the queries.
    """
    x = (x if x.dim() == len(order) else x.unsqueeze(-1)).permute(order)
    if x.dim() == 3:
        number = site.heads(len(x)) if joined else 1
        if heads_first:
            return x.reshape(number, len(x) // number, *x.shape[1:]).transpose(0, 1)
        return split_heads(x, number)
    if x.dim() != 4:
        return split_heads(x, site.number_of_heads)
    second = site.may_have_heads(x.shape[1])
    if shared and not second and site.may_have_heads(x.shape[2]):
        return x.transpose(1, 2)
    if windows or not second:
        if site.may_have_heads(x.shape[0]) and not second:
            return x.transpose(0, 1)
        heads = site.heads_of_caller(len(x))
        if heads:
            return x.reshape(-1, heads, *x.shape[1:]).transpose(1, 2).flatten(0, 1)
    return x
