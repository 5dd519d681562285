"""Boolean masks: True = attend. One meaning everywhere; `normalizers` and `fast` read them.

A mask broadcasts against weights `[..., Q, K]`. `[Q, K]` is shared by a batch; all others have a dimension
for each of the weights: without heads, `[B, 1, K]` hides padding from every query, and with heads
`[B, 1, 1, K]` does, which is `lengths_mask(lengths, K).unsqueeze(1)`. `Attention.remember` states the rule.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def lengths_mask(lengths: Int[Tensor, " B *Q"], size: int) -> Bool[Tensor, "B Q_ K"]:
    """Mask that keeps the first `lengths` of `size` keys.

    Args:
        lengths: `[B]`, one valid length for all queries of an example (the mask is `[B, 1, size]`),
            or `[B, Q]`, one for each query (the mask is `[B, Q, size]`).
        size: number of keys K.
    """
    if lengths.dim() > 2:
        raise ValueError(f"lengths must be [B] or [B, Q], got {list(lengths.shape)}")
    per_query = lengths if lengths.dim() == 2 else lengths.unsqueeze(-1)
    return torch.arange(size, device=lengths.device) < per_query.unsqueeze(-1)


def keeps_all(mask: Bool[Tensor, "..."]) -> bool:
    """Whether a mask is seen to keep every key: half the time of the CPU's fused kernel is its mask.

    A GPU would have to be waited for, and compiled code may not depend on values: there nothing is seen.
    """
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and bool(mask.all())


def causal_mask(
    queries: int, keys: int | None = None, device: torch.device | None = None, *, offset: int = 0
) -> Bool[Tensor, "Q K"]:
    """Mask that keeps the keys up to the query's own position: j <= i (1706.03762, section 3.2.3).

    `offset` is the position of the first query, as when decoding with a cache of earlier keys.
    """
    return distances(queries, queries if keys is None else keys, device, offset=offset) <= 0


def band_mask(
    queries: int, keys: int, width: int, device: torch.device | None = None, *, offset: int = 0
) -> Bool[Tensor, "Q K"]:
    """Mask that keeps keys at most `width` positions from the query: |j - i| <= width."""
    return distances(queries, keys, device, offset=offset).abs() <= width


def distances(
    queries: int, keys: int, device: torch.device | None = None, *, offset: int = 0
) -> Int[Tensor, "Q K"]:
    """`j - i` of every key j = 0, 1, ... and query i = offset, offset + 1, ..."""
    query = torch.arange(offset, offset + queries, device=device).unsqueeze(-1)
    return torch.arange(keys, device=device) - query


def leave_out_mask(index: Int[Tensor, " Q"], keys: int) -> Bool[Tensor, "Q K"]:
    """Mask that hides key `index[i]` from query i; a negative index hides nothing.

    With `index = arange(n)` over n keys it is the leave-one-out mask, all but the diagonal.
    """
    return torch.arange(keys, device=index.device) != index.unsqueeze(-1)


def adjacency_mask(
    edges: Int[Tensor, "2 E"], nodes: int, *, directed: bool = False, self_loops: bool = True
) -> Bool[Tensor, "N N"]:
    """Mask of a graph: node i attends to its neighbours N_i alone (1710.10903, section 2.1).

    Args:
        edges: pairs of nodes; repeated ones count once.
        nodes: number of nodes N.
        directed: an edge (a, b) lets b attend to a only; otherwise also a to b.
        self_loops: let every node attend to itself, as in the paper. Without them a node that no edge
            reaches attends to nothing, and its context is zero.
    """
    start, end = edges
    mask = torch.eye(nodes, dtype=torch.bool, device=edges.device) & self_loops
    mask[end, start] = True
    if not directed:
        mask[start, end] = True
    return mask
