"""Distances of all pairs, on the CPU without a tensor `[Q, K, d]`, and with derivatives of every order."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_lab.attention.checks.tensors import check_same_size
from attention_lab.attention.fast.second_derivatives import by_plain_formula, plain_gradients
from attention_lab.attention.torch_state import needs_plain_operations


def distance(query: Tensor, key: Tensor, order: float, width: Tensor | None = None) -> Tensor:
    """`|(q - k) w|_p` of all pairs, computed from differences.

    A single width w for all features, `[1]` or `[H, 1, 1]`, multiplies the differences, which are precise at
    any offset of the inputs. A width for each feature multiplies the inputs themselves, measured from a point
    among the queries, so that inputs near that point stay precise. Half-precision inputs give float32
    distances, because the squares may overflow float16 or need more digits. `[Q, K, d]` is stored only for
    second derivatives, in forward mode, under `torch.func`, and on a GPU by PyTorch's own gradient.
    """
    return _of_pairs(query, key, order, width, squared=False)


def squared_distance(query: Tensor, key: Tensor, width: Tensor | None = None) -> Tensor:
    """`|(q - k) w|_2^2` of all pairs; see `distance`."""
    return _of_pairs(query, key, 2.0, width, squared=True)


def _of_pairs(query: Tensor, key: Tensor, order: float, width: Tensor | None, *, squared: bool) -> Tensor:
    check_same_size(query, key)
    working = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(working), key.to(working)
    if width is not None and width.shape[-1] > 1:
        centre = _centre(query) if query.shape[-2] else 0.0  # changes no difference
        query, key, width = (query - centre) * width, (key - centre) * width, None
    if query.shape[-1] == 1:
        difference = query - key.mT
        difference = difference if width is None else difference * width
        return difference.square() if squared else difference.abs()
    pairs = _unscaled(query, key, order, squared)
    if width is None:
        return pairs
    return pairs * (width.square() if squared else width.abs())


def _centre(query: Tensor) -> Tensor:
    """A point among the queries, `[..., 1, d]`: in each feature, that of the query which is nearest to 0.

    Zeros and values that are not finite are left out, and large ones not chosen: they may be padding.
    """
    query = query.detach()
    query = torch.where(query.isfinite() & (query != 0), query, torch.inf)
    centre = query.gather(-2, query.abs().argmin(-2, keepdim=True))
    return torch.where(centre.isfinite(), centre, 0)


def _unscaled(query: Tensor, key: Tensor, order: float, squared: bool) -> Tensor:
    if needs_plain_operations():  # cdist has neither forward mode nor second derivatives
        return _plain(query, key, order, squared)
    if torch.compiler.is_compiling():
        return _fast(query, key, order, squared)[1]
    pairs: Tensor = _Pairs.apply(query, key, order, squared)  # type: ignore[no-untyped-call]
    return pairs


def _plain(query: Tensor, key: Tensor, order: float, squared: bool) -> Tensor:
    """Differentiable any number of times; squares have the right second derivative at distance 0, too."""
    difference = query.unsqueeze(-2) - key.unsqueeze(-3)
    if squared:
        return difference.square().sum(-1)
    norm: Tensor = torch.linalg.vector_norm(difference, order, -1)
    return norm


def _fast(query: Tensor, key: Tensor, order: float, squared: bool) -> tuple[Tensor, Tensor]:
    """The distances, and their squares or again the distances."""
    found = torch.cdist(query, key, p=order, compute_mode="donot_use_mm_for_euclid_dist")
    return found, found.square() if squared else found


class _Pairs(torch.autograd.Function):
    """`_fast` for autograd; second derivatives come from `_plain`."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, order: float, squared: bool) -> Tensor:
        found, result = _fast(query, key, order, squared)
        ctx.save_for_backward(query, key, found)
        ctx.options = order, squared
        return result

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        query, key, found = ctx.saved_tensors
        order, squared = ctx.options
        if by_plain_formula(upstream):
            plain = partial(_plain, order=order, squared=squared)
            return *plain_gradients(plain, (query, key), ctx.needs_input_grad, upstream), None, None
        if squared:
            upstream = 2 * upstream * found
        of_query, of_key = ctx.needs_input_grad[:2]
        return (
            _gradient(upstream, query, key, order, found) if of_query else None,
            _gradient(upstream.mT, key, query, order, found.mT) if of_key else None,
            None,
            None,
        )


def _gradient(upstream: Tensor, x: Tensor, y: Tensor, order: float, found: Tensor) -> Tensor:
    """The gradient of `x`, given its distances `found` to `y`, computed as torch does for cdist."""
    gradient: Tensor = torch.ops.aten._cdist_backward(upstream.contiguous(), x, y, order, found.contiguous())
    return gradient
