"""Attention whose score is an inner product, by torch's fused kernel: the weights are never in memory."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lab.attention.masks import known_all_true
from attention_lab.attention.torch_state import exporting, has_values, product_dtype, without_autocast

MOST_IN_FLOAT32 = 2**20  # multiplications for the scores of a head
PADDING_FOR_A_QUERY = 4  # columns that take as long as the weights of a query


def fused_attention(
    query: Float[Tensor, "... Q f"],
    key: Float[Tensor, "... K f"],
    value: Float[Tensor, "... K dv"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    bias: Float[Tensor, "..."] | None = None,
    sink: Float[Tensor, "..."] | None = None,
    causal: bool = False,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Float[Tensor, "... Q dv"]:
    """`softmax(scale (q k^T + bias), mask) v`, possibly with a sink; zeros for a row without a key.

    Args:
        query: features of the queries; the leading dimensions of all arguments broadcast.
        key: features of the keys.
        value: values.
        mask: boolean, broadcastable to `[..., Q, K]`, True = attend.
        bias: added to the scores, broadcastable like the mask.
        sink: logit of an extra key without a value, broadcastable to `[..., Q, 1]`.
        causal: let a query see only the keys up to its own position; not with a mask, bias or sink.
        scale: factor on the scores.
        dropout: probability with which a weight is dropped.
    """
    value_size = value.shape[-1]
    # A sink does not make up for the keys: its score is NaN if the query is.
    alive = None if mask is None else mask.any(-1, keepdim=True)
    if sink is not None:
        query, key, value = _with_sink(query, key, value, sink / scale)
        mask, bias = (x if x is None else _append(x, key.shape[-2] - 1) for x in (mask, bias))
    query, key, value = fitted(query, key, value)
    rank = max([x.dim() for x in (query, key, value, mask, bias) if x is not None])
    mask, bias = (x if x is None else _lift(x, rank) for x in (mask, bias))
    query, key, value = _broadcast([_lift(x, rank) for x in (query, key, value)], mask, bias)
    empty = None
    if mask is not None and alive is not None and not known_all_true(alive):
        # Kernels differ in what an empty row gives (zeros, NaN, a mean): unmask it, then zero its context.
        empty = ~_lift(alive, rank)
        # One column for all keys hides nothing else; a GPU's kernels do not repeat it for each key.
        mask = None if _has_one_column(mask) else mask | empty
    if bias is not None:
        bias = (bias * scale).to(query.dtype)
        if _has_one_column(bias):
            bias = bias.expand(*bias.shape[:-1], key.shape[-2]).contiguous()
        mask = bias if mask is None else bias.where(mask, -torch.inf)
    leading = query.shape[:-3]
    if rank > 4:  # the fast kernels take four dimensions
        query, key, value = (x.flatten(0, -4) for x in (query, key, value))
        if mask is not None:
            mask = _merged(mask, leading)
    in_float32 = _faster_in_float32(query, key, value, mask, dropout)
    context = (_in_float32 if in_float32 else F.scaled_dot_product_attention)(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
    )
    if rank > 4:
        context = context.reshape(*leading, *context.shape[-3:])
    if empty is not None:
        context = context.masked_fill(empty, 0.0)
    context = _lower(context, rank)
    return context if context.shape[-1] == value_size else context[..., :value_size]


def _faster_in_float32(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> bool:
    """Whether this is a short sequence in half precision, with a gradient, on the CPU.

    There the backward pass of the flash kernel sets up each matrix product of each head anew, which takes
    longer than the product itself.
    """
    if query.device.type != "cpu" or torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return False
    if product_dtype(query) not in (torch.bfloat16, torch.float16):
        return False
    if dropout or (mask is not None and mask.requires_grad):  # takes another kernel
        return False
    if not (query.requires_grad or key.requires_grad or value.requires_grad):
        return False
    return query.shape[-2] * key.shape[-2] * query.shape[-1] <= MOST_IN_FLOAT32


def _in_float32(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None, **options: Any
) -> Tensor:
    """`F.scaled_dot_product_attention` in float32; the context has the type that autocast would give it."""
    if attn_mask is not None and attn_mask.is_floating_point():
        attn_mask = attn_mask.float()
    inputs = query.float(), key.float(), value.float()
    with without_autocast(query):
        context = F.scaled_dot_product_attention(*inputs, attn_mask=attn_mask, **options)
    return context.to(product_dtype(value))


def fitted(
    query: Float[Tensor, "... Q f"], key: Float[Tensor, "... K f"], value: Float[Tensor, "... K dv"]
) -> list[Tensor]:
    """Pad features and values to the same size for the CPU's flash kernel, and to a multiple of 8 on a GPU.

    The zeros change neither scores nor contexts; contexts only get trailing zeros. For few queries on the CPU
    nothing is padded: the kernel for any sizes stores the weights, which are then fewer than the zeros.
    """
    on_cpu = query.device.type == "cpu"
    may_branch = on_cpu and not torch.compiler.is_compiling()
    if may_branch and PADDING_FOR_A_QUERY * query.shape[-2] <= abs(query.shape[-1] - value.shape[-1]):
        return [query, key, value]
    size = max(query.shape[-1], value.shape[-1])
    size += 0 if on_cpu else -size % 8
    tensors = (query, key, value)
    return [F.pad(x, (0, size - x.shape[-1])) if x.shape[-1] < size else x for x in tensors]


def _with_sink(query: Tensor, key: Tensor, value: Tensor, sink: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Append a key of value zero whose product with every query is `sink`, by adding a feature."""
    leading = torch.broadcast_shapes(key.shape[:-2], sink.shape[:-2])  # type: ignore[no-untyped-call]
    row = F.pad(sink.to(key.dtype).expand(*leading, 1, 1), (key.shape[-1], 0))
    key = torch.cat([F.pad(key, (0, 1)).expand(*leading, -1, -1), row], -2)
    return F.pad(query, (0, 1), value=1.0), key, F.pad(value, (0, 0, 0, 1))


def _append(x: Tensor, keys: int) -> Tensor:
    """A mask that also keeps the sink, or a bias that leaves its score as it is."""
    x = x.expand(*x.shape[:-1], keys)
    return F.pad(x, (0, 1), value=True) if x.dtype == torch.bool else F.pad(x, (0, 1))


def _has_one_column(x: Tensor) -> bool:
    """Whether a mask or a bias has one column; False in traced and exported code, for any sizes."""
    if not has_values(x) and (not torch.compiler.is_compiling() or exporting()):
        return False
    return x.shape[-1] == 1


def _broadcast(tensors: Sequence[Tensor], *others: Tensor | None) -> list[Tensor]:
    """`tensors`, expanded to the leading dimensions that all of them and the other tensors broadcast to."""
    shapes = [x.shape[:-2] for x in (*tensors, *others) if x is not None]
    leading = _leading(shapes)
    given = zip(tensors, shapes, strict=False)
    return [x if shape == leading else x.expand(*leading, *x.shape[-2:]) for x, shape in given]


def _leading(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that shapes of the same rank broadcast to."""
    if torch.compiler.is_compiling():  # sizes are symbols
        return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    # torch.broadcast_shapes takes longer than the kernel of a small call.
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*shapes, strict=True))


def _lift(x: Tensor, rank: int) -> Tensor:
    """`x` with `rank` dimensions, then with batch and head dimensions if those are missing."""
    x = x if x.dim() == rank else x.reshape((1,) * (rank - x.dim()) + x.shape)
    return x[None, None] if rank == 2 else x.unsqueeze(1) if rank == 3 else x


def _merged(mask: Tensor, leading: Sequence[int]) -> Tensor:
    """A mask with its dimensions before the last three in one, of size 1 if the mask is the same for all."""
    # Without values, as in compiled or traced code, sizes may change later.
    if not has_values(mask) or any(size != 1 for size in mask.shape[:-3]):
        mask = mask.expand(*leading, *mask.shape[-3:])
    return mask.flatten(0, -4)


def _lower(x: Tensor, rank: int) -> Tensor:
    """Undo `_lift`."""
    return x[0, 0] if rank == 2 else x.squeeze(1) if rank == 3 else x
