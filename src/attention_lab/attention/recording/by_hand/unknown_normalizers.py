"""Weights of an unknown normaliser, such as sparsemax (1602.02068) or entmax (1905.05702)."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.known_tensors import Map, Product, Scores, Weights
from attention_lab.attention.recording.session import Session
from attention_lab.attention.torch_state import under_vmap


def recognised(
    session: Session, scores: Product | Scores | None, x: Tensor, dims: Callable[[], Iterable[int]]
) -> Weights | None:
    """Weights computed from scores, if their values are a distribution over one of the dimensions."""
    if type(x) is not Tensor or x.is_nested or x.device.type == "meta" or not x.numel() or under_vmap():
        return None
    key = next((dim for dim in dims() if x.shape[dim] > 1 and _is_distribution(x.detach(), dim)), None)
    site = None if key is None else session.site()
    if site is None or key is None:
        return None
    return Weights(Map(site, scores, x.detach(), None, x.shape[key]), key, None)


def _is_distribution(x: Tensor, dim: int) -> bool:
    with torch._C.DisableTorchFunction(), torch.no_grad():
        sums = x.sum(dim, dtype=torch.promote_types(x.dtype, torch.float32))
        return bool((x.amin() >= 0) & ((sums - 1).abs().amax() < 1e-2))
