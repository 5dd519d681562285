"""Check masks, and the lengths and edges that masks are made from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.attention.checks.tensors import broadcast, check_indices


def check_mask(mask: object, scores: Sequence[int] | None = None) -> None:
    """Raise an error if a mask is not a boolean tensor, or does not broadcast to scores of this shape."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"a mask must be a boolean tensor (True = attend), not {kind_of(mask)}")
    if mask.dtype != torch.bool:
        other = (
            "mask == 0 for one that is added to the scores"
            if mask.is_floating_point()
            else "lengths_mask(lengths, keys) for lengths"
        )
        raise ValueError(
            f"a mask must be boolean (True = attend), got {mask.dtype}: give mask.bool() for a mask of ones "
            f"and zeros, or {other}"
        )
    if scores is not None and not broadcast(mask.shape, scores):
        raise ValueError(
            f"a mask {list(mask.shape)} does not broadcast to the scores {list(scores)}: a mask [B, K] for "
            "padding becomes mask.unsqueeze(1)"
        )


def check_lengths(lengths: object) -> None:
    """Raise TypeError if lengths are not a tensor, or are a boolean mask."""
    if not isinstance(lengths, Tensor):
        raise TypeError(
            f"lengths must be a tensor, such as torch.tensor([3, 5]), not {type(lengths).__name__}"
        )
    if lengths.dtype == torch.bool:
        raise TypeError("lengths must be integers, not a boolean mask: for a mask [B, K], give mask.sum(-1)")


def check_edges(edges: Any) -> None:
    """Raise TypeError or ValueError if edges are not an integer tensor `[2, E]`."""
    check_indices("edges", edges, "node indices, such as torch.tensor([[0], [1]])")
    if edges.dim() != 2 or len(edges) != 2:
        turned = ": give edges.T" if edges.dim() == 2 and edges.shape[1] == 2 else ""
        raise ValueError(
            f"edges must be [2, E], source nodes and target nodes, got {list(edges.shape)}{turned}"
        )
