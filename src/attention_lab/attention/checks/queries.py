"""Check a call of an attention: its queries, memory, bias and offset."""

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.checks.keys import check_fields
from attention_lab.attention.checks.tensors import broadcast, check_count, check_devices, check_tensors
from attention_lab.attention.memory import Memory
from attention_lab.attention.scores.projection import NO_VALUES


def checked_memory(call: str, memory: object) -> Memory:
    """The memory. Raises TypeError if it does not come from `remember`."""
    if not isinstance(memory, Memory):
        given = kind_of(memory)
        raise TypeError(f"{call} takes the memory that remember(...) returns, not {given}")
    return memory


def check_query(query: Tensor, memory: object, size: int, bias: object = None, offset: object = 0) -> None:
    """Reject queries `[..., Q, dq]` and a bias that do not fit the score or the memory.

    Raises:
        TypeError: the queries are not a tensor, or are a nested tensor; the memory does not come from
            `Attention.remember`; or the bias is not a float tensor.
        ValueError: the shapes or devices do not fit, or only some of the tensors are on the meta device.
        LabError: the offset is not a whole number.
    """
    check_tensors("attention", query=query)
    memory = checked_memory("attention(query, memory)", memory)
    if bias is not None and not (isinstance(bias, Tensor) and bias.is_floating_point()):
        given = str(bias.dtype) if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(
            f"a bias must be a floating-point tensor, which is added to the scores, not {given}; "
            "a boolean mask belongs to attention.remember(keys, mask=...)"
        )
    check_count("offset", offset)
    if torch.compiler.is_compiling():
        return
    if query.dim() < 2 or query.shape[-1] != size:
        raise ValueError(f"the score was made for queries of size {size}, got {list(query.shape)}")
    check_fields(memory.keys, memory.value, memory.mask)
    check_devices(memory.keys, memory.value, query)
    rows = 1 if memory.mask is None else memory.mask.shape[-2]
    if rows not in (1, query.shape[-2]):
        raise ValueError(
            f"a mask with {rows} rows does not fit queries {list(query.shape)}: give one row for all of them "
            f"or one for each of the {query.shape[-2]}; a mask [B, K] for padding becomes mask.unsqueeze(1)"
        )
    # A fused kernel would read arbitrary memory.
    if isinstance(bias, Tensor) and bias.is_meta and not query.is_meta:
        raise ValueError(f"the bias is {NO_VALUES}")
    if not broadcast(query.shape[:-2], memory.keys.shape[:-2]):
        raise ValueError(
            f"queries {list(query.shape)} and keys {list(memory.keys.shape)} must agree in all dimensions "
            "but the last two, such as the batch, or have size 1 there"
        )
    if isinstance(bias, Tensor) and not broadcast(bias.shape, (*query.shape[:-1], memory.keys.shape[-2])):
        raise ValueError(
            f"a bias {list(bias.shape)} does not broadcast to the scores "
            f"{[*query.shape[:-1], memory.keys.shape[-2]]}"
        )
