"""Sparse maps from scores to the simplex: sparsemax and 1.5-entmax.

Both first find the keys of weight zero, from sorted scores and without derivatives. The weights of the other
keys follow from a formula without branches, which has derivatives of every order and in every mode.
"""

import torch
from torch import Tensor

from attention_lab.attention.torch_state import has_values


def sparsemax(scores: Tensor) -> Tensor:
    """`(s_i - tau)_+` with a sum of one, for scores whose largest is 0 (1602.02068, algorithm 1)."""
    first, count = _sorted(scores)
    thresholds = (first.cumsum(-1) - 1) / count  # tau, if the first 1, 2, ... keys have a weight
    zero = scores.detach() <= _last(thresholds, thresholds < first)
    size = (~zero).sum(-1, keepdim=True, dtype=torch.int32).clamp_min(1)  # 0 in a row without a key
    tau = (scores.masked_fill(zero, 0.0).sum(-1, keepdim=True) - 1) / size
    return (scores - tau).masked_fill(zero, 0.0).clamp_min(0.0)


def entmax15(scores: Tensor) -> Tensor:
    """`(s_i / 2 - tau)_+^2` with a sum of one, for scores whose largest is 0 (1905.05702, algorithm 2)."""
    scores = scores / 2
    first, count = _sorted(scores)
    mean = first.cumsum(-1) / count
    spread = first.square().cumsum(-1) - count * mean.square()
    thresholds = mean - ((1 - spread) / count).clamp_min(0.0).sqrt()
    zero = scores.detach() <= _last(thresholds, thresholds < first)
    size = (~zero).sum(-1, keepdim=True, dtype=torch.int32).clamp_min(1)  # 0 in a row without a key
    mean = scores.masked_fill(zero, 0.0).sum(-1, keepdim=True) / size
    spread = (scores - mean).masked_fill(zero, 0.0).square().sum(-1, keepdim=True)
    tau = mean - ((1 - spread) / size).clamp_min(torch.finfo(scores.dtype).tiny).sqrt()
    return (scores - tau).masked_fill(zero, 0.0).square()


def _sorted(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The scores above -1 (below it, weights are zero), in descending order, and 1, 2, ...

    Other scores count as -1. If it is faster, only the first columns are returned: the largest number of
    scores above -1 in any row.
    """
    scores = scores.detach().clamp_min(-1.0)
    few = None
    if scores.device.type == "cpu" and has_values(scores) and scores.numel():
        most = max(1, int((scores > -1.0).sum(-1, dtype=torch.int32).max()))
        few = most if most <= scores.shape[-1] // 2 else None
    first = (scores.sort(-1, descending=True) if few is None else scores.topk(few, -1)).values
    return first, torch.arange(1, first.shape[-1] + 1, dtype=scores.dtype, device=scores.device)


def _last(thresholds: Tensor, valid: Tensor) -> Tensor:
    """The last valid threshold of each row; the first keys of a row are the valid ones."""
    index = valid.sum(-1, keepdim=True).clamp_min(1) - 1
    return thresholds.gather(-1, index)
