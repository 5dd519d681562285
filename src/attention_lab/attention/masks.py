"""Boolean masks, in which True always means "attend"; `normalizers` and `fast` apply them.

A mask broadcasts against the weights `[..., Q, K]`. `[Q, K]` is shared by a batch; any other mask has as many
dimensions as the weights. Without heads, `[B, 1, K]` hides padding from every query; with heads it is
`[B, 1, 1, K]`, that is `lengths_mask(lengths, K).unsqueeze(1)`. `Attention.remember` gives the full rule.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_lab.attention.checks.masks import check_edges, check_lengths
from attention_lab.attention.checks.tensors import check_count, check_indices
from attention_lab.attention.torch_state import has_values


def lengths_mask(lengths: Int[Tensor, " B *Q"], size: int) -> Bool[Tensor, "B Q_ K"]:
    """Mask that keeps the first `lengths` of `size` keys.

    Args:
        lengths: `[B]`, one valid length for all queries of an example (the mask is `[B, 1, size]`),
            or `[B, Q]`, one for each query (the mask is `[B, Q, size]`).
        size: number of keys K.

    Raises:
        TypeError: the lengths are not a tensor, or are a boolean mask.
        ValueError: the lengths have too many dimensions, or on the CPU, are negative, above `size` or not
            whole numbers, or are a mask of zeros and ones.
        LabError: `size` is not a whole number of at least 0.
    """
    check_lengths(lengths)
    check_count("size", size, least=0)
    if lengths.dim() > 2:
        raise ValueError(f"lengths must be [B] or [B, Q], got {list(lengths.shape)}")
    if lengths.device.type == "cpu" and has_values(lengths) and lengths.numel():
        least, most = map(Tensor.item, lengths.aminmax())
        for length in (least, most):
            if not 0 <= length <= size:
                raise ValueError(f"lengths must be from 0 to {size}, the number of keys, got {length}")
        if lengths.is_floating_point() and (parts := lengths[lengths != lengths.round()]).numel():
            raise ValueError(f"lengths must be whole numbers, got {parts[0].item():g}")
        if lengths.dim() == 2 and lengths.shape[1] == size and most == 1 < lengths.sum(-1).max():
            raise ValueError(
                f"lengths {list(lengths.shape)} of zeros and ones are a mask: give mask.bool().unsqueeze(1) "
                "in place of lengths_mask, or if padding is on the right, mask.sum(-1) as lengths"
            )
    per_query = lengths if lengths.dim() == 2 else lengths.unsqueeze(-1)
    return torch.arange(size, device=lengths.device) < per_query.unsqueeze(-1)


def known_all_true(mask: Bool[Tensor, "..."]) -> bool:
    """Whether a mask keeps every key and can be dropped, which halves the time of the fused kernel on a CPU.

    Always False on a GPU, where looking at the values would force a synchronisation, and for tensors that
    have no values.
    """
    return mask.device.type == "cpu" and has_values(mask) and bool(mask.all())


def mask_and_bias(
    added: Float[Tensor, "..."], lowest: float = -math.inf
) -> tuple[Bool[Tensor, "..."], Float[Tensor, "..."] | None]:
    """Split a mask that is added to the scores into a boolean mask and a bias.

    Args:
        added: the mask; at most `lowest` for a hidden key.
        lowest: the largest value that means "hidden".

    Returns:
        The mask, True = attend, and the bias, 0 for hidden keys; None if it is 0 for all.
    """
    hidden = added <= lowest
    bias = added.masked_fill(hidden, 0.0)  # finite, so that rows without a key have gradients
    return ~hidden, bias if bias.requires_grad or not known_all_true(bias == 0) else None


def causal_mask(
    queries: int, keys: int | None = None, device: torch.device | None = None, *, offset: int = 0
) -> Bool[Tensor, "Q K"]:
    """Mask that keeps the keys up to the query's own position: j <= i (1706.03762, section 3.2.3).

    `offset` is the position of the first query, for decoding with a cache of earlier keys.

    Raises:
        LabError: a number of queries or keys is not a whole number of at least 0, or the offset is not a
            whole number.
    """
    keys = queries if keys is None else keys
    _check_counts(queries, keys, offset)
    return distances(queries, keys, device, offset=offset) <= 0


def band_mask(
    queries: int, keys: int, width: int, device: torch.device | None = None, *, offset: int = 0
) -> Bool[Tensor, "Q K"]:
    """Mask that keeps the keys at most `width` positions away from the query: |j - i| <= width.

    Raises:
        LabError: a number of queries or keys, or the width, is not a whole number of at least 0, or the
            offset is not a whole number.
    """
    _check_counts(queries, keys, offset)
    check_count("width", width, least=0)
    return distances(queries, keys, device, offset=offset).abs() <= width


def distances(
    queries: int, keys: int, device: torch.device | None = None, *, offset: int = 0
) -> Int[Tensor, "Q K"]:
    """`j - i` of every key j = 0, 1, ... and query i = offset, offset + 1, ..."""
    query = torch.arange(offset, offset + queries, device=device).unsqueeze(-1)
    return torch.arange(keys, device=device) - query


def leave_out_mask(index: Int[Tensor, " Q"], keys: int) -> Bool[Tensor, "Q K"]:
    """Mask that hides key `index[i]` from query i; a negative index hides nothing.

    With `index = arange(n)` over n keys it is the leave-one-out mask, True except on the diagonal.

    Raises:
        TypeError: the index is not an integer tensor.
        ValueError: on the CPU, an index is not below the number of keys.
        LabError: the number of keys is not a whole number of at least 0.
    """
    check_indices("the index", index, "key indices, such as torch.arange(3)")
    check_count("keys", keys, least=0)
    if index.device.type == "cpu" and has_values(index) and (index >= keys).any():
        raise ValueError(f"the index must be below {keys}, the number of keys, got {int(index.max())}")
    return torch.arange(keys, device=index.device) != index.unsqueeze(-1)


def adjacency_mask(
    edges: Int[Tensor, "2 E"], nodes: int, *, directed: bool = False, self_loops: bool = True
) -> Bool[Tensor, "N N"]:
    """Mask of a graph: node i attends only to its neighbours N_i (1710.10903, section 2.1).

    Args:
        edges: pairs of nodes; duplicates count once.
        nodes: number of nodes N.
        directed: an edge (a, b) only lets b attend to a; otherwise a also attends to b.
        self_loops: let every node attend to itself, as in the paper. Without self-loops a node without
            incoming edges attends to nothing, and its context is zero.

    Raises:
        TypeError: the edges are not an integer tensor.
        ValueError: they are not `[2, E]`, or, on the CPU, not indices of nodes.
        LabError: the number of nodes is not a whole number of at least 0.
    """
    check_edges(edges)
    check_count("nodes", nodes, least=0)
    if edges.device.type == "cpu" and has_values(edges):
        outside = edges[(edges < 0) | (edges >= nodes)]
        if outside.numel():
            raise ValueError(f"edges must be node indices from 0 to {nodes - 1}, got {int(outside[0])}")
    start, end = edges
    mask = torch.eye(nodes, dtype=torch.bool, device=edges.device) & bool(self_loops)
    mask[end, start] = True
    if not directed:
        mask[start, end] = True
    return mask


def _check_counts(queries: object, keys: object, offset: object) -> None:
    """`check_count` for the sizes and the offset of a mask that depends on positions."""
    check_count("queries", queries, least=0)
    check_count("keys", keys, least=0)
    check_count("offset", offset)
