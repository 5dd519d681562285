"""Linear attention (2006.16236), `phi(q) (sum_j phi(k_j) v_j^T) / (phi(q) . sum_j phi(k_j))`.

The sums are taken over the keys, so memory and time are linear in the length. Where a product of all pairs is
smaller than the sums, as for a single query, it is used instead. On a GPU, kernels compute the causal form of
many sequences (`linear_triton`).
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lab.attention.fast import linear_triton
from attention_lab.attention.fast.second_derivatives import by_plain_formula, plain_gradients
from attention_lab.attention.torch_state import exporting, product_dtype, without_autocast

CHUNK = linear_triton.CHUNK
"""Positions per chunk in the causal form: all pairs inside a chunk are computed, and everything before it is
summed into one matrix."""


def linear_attention(
    query: Float[Tensor, "... Q f"],
    key: Float[Tensor, "... K f"],
    value: Float[Tensor, "... K dv"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
) -> Float[Tensor, "... Q dv"]:
    """Attention with the kernel `query . key`, in O(Q + K) (eq. 5), or causally, in O(Q CHUNK) (eq. 8).

    Args:
        query: features >= 0 of the queries.
        key: features >= 0 of the keys; causally as many as queries, at the same positions.
        value: values.
        mask: `[..., 1, K]`, True = attend; None for every key.
        causal: let a query see the keys up to its own position.

    Returns:
        Contexts, in the dtype of the values, or under autocast in that of its products; zero where no key
        has any weight.
    """
    if mask is not None:
        key = key.masked_fill(~mask.mT, 0.0)
    if causal and linear_triton.usable(query, value):
        context = _by_kernels(query, key, value)
    else:
        context = _by_sums(query, key, value, causal=causal)
    return context.to(product_dtype(value))


def _by_sums(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """Plain operations: causally in chunks, or all keys at once."""
    dtype, working = value.dtype, torch.promote_types(query.dtype, value.dtype)
    working = torch.promote_types(working, torch.float32)  # sums over a long source overflow half precision
    with without_autocast(value):
        query, key, value = (x.to(working) for x in (query, key, value))
        if _pairs_are_cheaper(query, key, value, causal=causal):
            pairs = query @ key.mT
            pairs = pairs.tril() if causal else pairs
            context = _normalized(pairs @ value, pairs.sum(-1, keepdim=True))
        else:
            value = F.pad(value, (0, 1), value=1.0)  # a column of ones: its sum is the normaliser
            sums = _causal(query, key, value) if causal else query @ (key.mT @ value)
            context = _split_normalized(sums)
    return context.to(dtype)


def _pairs_are_cheaper(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> bool:
    """Whether the products of all pairs take less time than sums over the keys; decided by the sizes.

    A multiplication costs about half as much in the larger matrices of the pairs. There are then at most
    `2 min(f, dv)` pairs for each query and key, so memory remains linear in the length.
    """
    if exporting():  # exported code must work for any sizes, but a number of chunks fits only some
        return causal
    queries, keys = query.shape[-2], key.shape[-2]
    of_pair, of_sums = query.shape[-1] + value.shape[-1], query.shape[-1] * value.shape[-1]
    sums = (queries + keys) * of_sums + (queries * CHUNK * of_pair if causal else 0)
    return queries * keys * of_pair <= 2 * sums


def _by_kernels(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The causal form on a GPU: one kernel for the context, two for the gradients."""
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])  # type: ignore[no-untyped-call]
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
    parts = [x.to(dtype).expand(*leading, *x.shape[-2:]).flatten(0, -3) for x in (query, key, value)]
    context: Tensor = _Causal.apply(*parts)  # type: ignore[no-untyped-call]
    return context.view(*leading, *context.shape[-2:]).to(value.dtype)


class _Causal(torch.autograd.Function):
    """`_by_kernels` of `[N, L, features]` in one dtype; second derivatives come from plain operations."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context, total = linear_triton.contexts(query, key, value)
        ctx.save_for_backward(query, key, value, context, total)
        return context

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, context, total = ctx.saved_tensors
        if by_plain_formula(upstream):
            plain = partial(_by_sums, causal=True)
            return plain_gradients(plain, (query, key, value), ctx.needs_input_grad, upstream)
        return linear_triton.gradients(query, key, value, context, total, upstream)


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The sums of each query: all pairs inside a chunk, and one matrix for everything before it."""
    length = query.shape[-2]
    short = -length % CHUNK
    query, key, value = (_chunks(F.pad(x, (0, 0, 0, short)), CHUNK) for x in (query, key, value))
    sums = key.mT @ value
    before = F.pad(sums[..., :-1, :, :], (0, 0, 0, 0, 1, 0)).cumsum(-3)
    pairs = (query @ key.mT).tril()
    sums = pairs @ value + query @ before
    return sums.flatten(-3, -2)[..., :length, :]


def _chunks(x: Tensor, size: int) -> Tensor:
    """`[..., n * size, d]` as `[..., n, size, d]`."""
    return x.reshape(*x.shape[:-2], x.shape[-2] // size, size, x.shape[-1])


def linear_step(
    query: Float[Tensor, "... f"],
    key: Float[Tensor, "... f"],
    value: Float[Tensor, "... dv"],
    state: Float[Tensor, "... f dv+1"] | None = None,
) -> tuple[Float[Tensor, "... dv"], Float[Tensor, "... f dv+1"]]:
    """One position of causal linear attention as a recurrent network (2006.16236, eq. 16 to 20).

    `S_i = S_{i-1} + phi(k_i) v_i^T`, `z_i = z_{i-1} + phi(k_i)`, `c_i = phi(q_i) S_i / (phi(q_i) . z_i)`.
    The state is `[S_i, z_i]`, of constant size.
    """
    more = key.unsqueeze(-1) * F.pad(value, (0, 1), value=1.0).unsqueeze(-2)
    state = more if state is None else state + more
    return _split_normalized(query.unsqueeze(-2) @ state).squeeze(-2), state


def _split_normalized(sums: Tensor) -> Tensor:
    """`_normalized` sums whose last column is the sum of the weights."""
    return _normalized(sums[..., :-1], sums[..., -1:])


def _normalized(sums: Tensor, total: Tensor) -> Tensor:
    """Sums of weighted values divided by the sum of the weights; 0 if that is 0."""
    some = total > 0
    return torch.where(some, sums / total.where(some, 1.0), 0.0)
