"""Grouped-query attention: query heads share key-value heads, which are not copied."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_lab.attention.attention import Attention
from attention_lab.attention.memory import Memory
from attention_lab.attention.shortcuts import computes_as, treats_heads_alike
from attention_lab.attention.torch_state import has_values
from attention_lab.attention.windows import Global


def remember_groups(
    attention: Attention,
    key: Float[Tensor, "B G K dk"],
    value: Float[Tensor, "B G K dv"],
    mask: Bool[Tensor, "..."] | None,
    heads: int,
    *,
    causal: bool = False,
) -> Memory:
    """The memory of G key-value heads for `grouped_attention` of H query heads.

    It has all H heads if each head prepares the keys differently, because the score has parameters, or masks
    them differently.
    """
    of_heads = mask is not None and mask.dim() == key.dim() and mask.shape[1] > 1
    if key.shape[1] < heads and (of_heads or any(True for _ in attention.score.parameters())):
        key, value = with_heads(key, heads), with_heads(value, heads)
    return attention.remember(key, value, mask, causal=causal)


def grouped_attention(
    attention: Attention,
    query: Float[Tensor, "B H Q dq"],
    memory: Memory,
    *,
    offset: int = 0,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "B H Q dv"]:
    """Attention of H query heads to G key-value heads, each shared by H / G of them.

    Where all queries see the same keys, as in a step of decoding, these are not copied for each head.

    Args:
        attention: computes the context of each head.
        query: the queries.
        memory: from `remember_groups`.
        offset: position of the first query.
        bias: added to the scores.
    """
    batch, heads, queries, size = query.shape
    if not _may_share(attention, memory, heads, offset):
        contexts: Tensor = attention(query, with_all_heads(memory, heads), offset=offset, bias=bias)
        return contexts
    if attention.record is not None:
        attention.record_weights(query, with_all_heads(memory, heads), offset=offset, bias=bias)
    groups = memory.keys.shape[1]
    rows = groups, heads // groups * queries  # the queries of a group attend as the rows of one head
    if bias is not None:
        bias = bias.expand(*bias.shape[:-3], heads, queries, -1)
        bias = bias.reshape(*bias.shape[:-3], *rows, bias.shape[-1])
    with attention.unrecorded():
        contexts = attention(query.reshape(batch, *rows, size), memory._replace(causal=False), bias=bias)
    return contexts.reshape(len(contexts), heads, queries, contexts.shape[-1])


def _may_share(attention: Attention, memory: Memory, heads: int, offset: int) -> bool:
    """Whether all queries of a group may be attended to as the rows of one head.

    False in compiled or traced code, where sizes and the form of the mask may change later.
    """
    mask = memory.mask
    return (
        memory.keys.shape[1] < heads
        and has_values(memory.value)
        and not memory.hides_later_keys(offset)
        and (mask is None or (mask.shape[-2] == 1 and mask.shape[-3:-2] in ((), (1,))))
        and computes_as(attention, Attention)
        and attention.has_the_formula()
        and computes_as(attention.window, Global)
        and treats_heads_alike(attention.score, attention.normalizer, attention.pooling, attention.dropout)
    )


def with_all_heads(memory: Memory, heads: int) -> Memory:
    """The memory with keys and values for each head of queries."""
    if memory.keys.shape[1] == heads:
        return memory
    return memory._replace(keys=with_heads(memory.keys, heads), value=with_heads(memory.value, heads))


def with_heads(x: Float[Tensor, "B G K f"], heads: int) -> Float[Tensor, "B H K f"]:
    """Each of the G heads H / G times; a single head is not copied."""
    groups = x.shape[1]
    if groups == 1:
        return x.expand(-1, heads, -1, -1)
    if not has_values(x):  # PyTorch 2.11 cannot export a `repeat_interleave` of sequences of any length
        return torch.cat([head.expand(-1, heads // groups, -1, -1) for head in x.split(1, 1)], 1)  # type: ignore[no-untyped-call]
    return x.repeat_interleave(heads // groups, 1)
