"""Boolean masks: True = attend. One meaning everywhere; `normalizers` and `fast` read them.

A mask broadcasts against weights `[..., Q, K]`: `[B, 1, K]` hides padding from every query,
`[Q, K]` is shared by a batch.
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


def causal_mask(
    queries: int, keys: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "Q K"]:
    """Mask that keeps the keys up to the query's own position (1706.03762, section 3.2.3).

    With more keys than queries the last query sees every key, as when decoding with a cache.
    """
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def band_mask(queries: int, keys: int, width: int, device: torch.device | None = None) -> Bool[Tensor, "Q K"]:
    """Mask that keeps keys at most `width` positions from the query: |j - i| <= width."""
    offset = torch.arange(keys, device=device) - torch.arange(queries, device=device).unsqueeze(-1)
    return offset.abs() <= width


def leave_out_mask(index: Int[Tensor, " Q"], keys: int) -> Bool[Tensor, "Q K"]:
    """Mask that hides key `index[i]` from query i; a negative index hides nothing.

    With `index = arange(n)` over n keys it is the leave-one-out mask, all but the diagonal.
    """
    return torch.arange(keys, device=index.device) != index.unsqueeze(-1)
