"""Turn calls of `scaled_dot_product_attention` into the form in which they are recorded."""

import math
import sys

import torch
from torch import Tensor

from attention_lab.attention.recording.weights import KernelCall
from attention_lab.attention.torch_state import product_dtype


def fused_call(
    heads: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> KernelCall:
    """The call in four dimensions, from the arguments of the function.

    Args:
        heads: how many heads are joined with the examples in the first of three dimensions, or have one of
            more than four dimensions to themselves.
        query: `[..., Q, d]`, `[B H, Q, d]` or `[B, H, Q, d]`; nested tensors are padded.
        key: the same with K.
        value: unused.
        attn_mask: boolean, True = attend, or added to the scores.
        dropout_p: unused; the recorded weights are those before dropout.
        is_causal: a query sees the keys up to its own position.
        scale: of the scores, by default `1 / sqrt(d)`.
        enable_gqa: several heads of the queries may share one head of the keys.
    """
    query, key, mask = query.detach(), key.detach(), plain_mask(attn_mask, query.device)
    query, key = autocast(query), autocast(key)
    if query.is_nested or key.is_nested:
        query, _ = padded(query)
        key, visible = padded(key)
        mask = visible[:, None, None, :]
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if enable_gqa:  # the heads are always in the third dimension from the end
        heads = None
        query, key = (x[None] if x.dim() == 3 else x for x in (query, key))
    kept = 3 if enable_gqa else 2  # the heads of queries and keys may differ in number
    shapes = [x.shape[:-kept] for x in (query, key)]
    lead = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    query, key = (x.expand(*lead, *x.shape[-kept:]) for x in (query, key))
    lead = query.shape[:-2]
    if mask is not None:
        mask = mask.detach()
        if len(lead) != 2:
            mask = split_heads(mask.expand(*lead, *mask.shape[-2:]), heads)
    return KernelCall(split_heads(query, heads), split_heads(key, heads), scale, mask, is_causal)


def plain_mask(mask: Tensor | None, device: torch.device) -> Tensor | None:
    """The mask as a tensor; one that was not a tensor is made on `device`."""
    bias = sys.modules.get("torch.nn.attention.bias")  # importing it takes as long as importing torch
    if bias is not None and isinstance(mask, bias.CausalBias):
        return mask._materialize(device)  # type: ignore[no-any-return]
    return mask


def split_heads(x: Tensor, heads: int | None) -> Tensor:
    """`x` as `[B, H, rows, columns]`. Of more than four dimensions, the one of size `heads` is theirs."""
    if x.dim() == 2:
        return x[None, None]
    if x.dim() == 3:
        return x.reshape(len(x) // (heads or 1), heads or 1, *x.shape[1:])
    if x.dim() > 4 and x.shape[1:-2].numel() == heads:  # heads in groups
        return x.flatten(1, -3)
    dims = [dim for dim in range(1, x.dim() - 2) if x.shape[dim] == heads]
    x = x.movedim(dims[0], -3) if x.dim() > 4 and len(dims) == 1 else x
    return x if x.dim() == 4 else x.flatten(0, -4)


def autocast(x: Tensor) -> Tensor:
    """`x` in the dtype that the kernel receives under autocast."""
    return x.to(product_dtype(x))


def padded(x: Tensor) -> tuple[Tensor, Tensor]:
    """A nested tensor `[B, (H,) L, d]` padded with zeros, and the mask `[B, L]` of its real rows."""
    parts = [*x.unbind()] if x.is_nested else [*x]
    lengths = torch.tensor([part.shape[-2] for part in parts], device=x.device)
    longest = int(lengths.max())
    full = [torch.nn.functional.pad(part, (0, 0, 0, longest - part.shape[-2])) for part in parts]
    return torch.stack(full), torch.arange(longest, device=x.device) < lengths[:, None]
