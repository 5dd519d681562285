"""Causal linear attention on a GPU, with Triton: one pass over each sequence, and two for the gradients.

Computes the same as the plain operations of `linear`, which write the products of all chunks to memory.
"""

from importlib import import_module

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.triton_tools import on_device_of, on_nvidia, shared_memory, triton_works
from attention_lab.attention.torch_state import has_values, needs_plain_operations

CHUNK = 64
WIDEST = 64
"""Largest number of features and of values for which one program can hold its sums."""
LITTLE = 64 << 10
"""With this much shared memory (NVIDIA's Turing, AMD), only half as many fit in float32."""
LEAST = 32
"""Smallest number of sequences: a program processes one sequence, so fewer leave most of a GPU idle."""


def usable(query: Tensor, value: Tensor) -> bool:
    """Whether the kernels apply: many sequences of small heads on a CUDA device, with Triton working."""
    return (
        value.is_cuda
        and has_values(value)  # asked first: a question about sizes would make the compiler compile twice
        and query.shape[-2] > CHUNK
        and query.shape[:-2].numel() >= LEAST
        and max(query.shape[-1], value.shape[-1]) <= WIDEST
        and torch.promote_types(query.dtype, value.dtype) != torch.float64
        and not needs_plain_operations()
        and triton_works()
        and _fits(query, value)
    )


def _fits(query: Tensor, value: Tensor) -> bool:
    """Whether the programs find enough shared memory."""
    is_wide = max(query.shape[-1], value.shape[-1]) > WIDEST // 2
    if not is_wide or torch.float32 not in (query.dtype, value.dtype):
        return True
    return shared_memory(value.device.index) > LITTLE


def contexts(
    query: Float[Tensor, "N L f"], key: Float[Tensor, "N L f"], value: Float[Tensor, "N L dv"]
) -> tuple[Float[Tensor, "N L dv"], Float[Tensor, "N L"]]:
    """The contexts, and the sums of the weights `[N, L]` in float32."""
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    context, total = torch.empty_like(value), value.new_empty(value.shape[:-1], dtype=torch.float32)
    _launch("context", (query, key, value, context, total), query, value)
    return context, total


def gradients(
    query: Float[Tensor, "N L f"],
    key: Float[Tensor, "N L f"],
    value: Float[Tensor, "N L dv"],
    context: Float[Tensor, "N L dv"],
    total: Float[Tensor, "N L"],
    upstream: Float[Tensor, "N L dv"],
) -> tuple[Float[Tensor, "N L f"], Float[Tensor, "N L f"], Float[Tensor, "N L dv"]]:
    """The gradients of queries, keys and values from that of the contexts."""
    query, key, value, upstream = (x.contiguous() for x in (query, key, value, upstream))
    of_query, of_key, of_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    of_total = torch.empty_like(total)
    _launch("query_gradient", (key, value, context, total, upstream, of_total, of_query), query, value)
    _launch(
        "key_value_gradients", (query, key, value, total, upstream, of_total, of_key, of_value), query, value
    )
    return of_query, of_key, of_value


def _launch(name: str, tensors: tuple[Tensor, ...], query: Tensor, value: Tensor) -> None:
    sequences, length, features = query.shape
    kernels = import_module("attention_lab.attention.fast.linear_kernels")
    with on_device_of(value):
        getattr(kernels, name)[(sequences,)](
            *tensors,
            *(length, features, value.shape[-1]),
            *(CHUNK, _tile(features), _tile(value.shape[-1]), _precision(value.dtype)),
            **options(value.dtype),
        )


def options(dtype: torch.dtype) -> dict[str, int | bool]:
    """How a kernel is compiled: products in float32 need the registers of more threads."""
    return {"num_warps": 8 if dtype == torch.float32 else 4, "num_stages": 2, "enable_fp_fusion": True}


def _tile(size: int) -> int:
    """The smallest power of two that holds this many features; at least 16, as tensor cores need."""
    return int(max(16, 1 << (size - 1).bit_length()))


def _precision(dtype: torch.dtype) -> str:
    """How products are computed: as in float32, or exactly from halves, whose sums are rounded to TF32."""
    if not on_nvidia():
        return "ieee"
    return "tf32x3" if dtype == torch.float32 else "tf32"
