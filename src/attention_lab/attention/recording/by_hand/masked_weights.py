"""Weights that a model masks after the softmax, by setting them to zero."""

from dataclasses import replace

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.known_tensors import Weights


def zeros(weights: Weights, x: Tensor) -> Tensor | None:
    """Which of some weights are zero, before dropout; None for their logarithms."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return None if weights.logarithm else _before_dropout(weights, x) == 0


def with_zeros_masked(weights: Weights, x: Tensor, zero: Tensor) -> Weights:
    """The weights `x`, of which those are masked that are zero now, and were not in `zero`."""
    if weights.mask is None:
        return weights
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return replace(weights, mask=weights.mask & (zero | (_before_dropout(weights, x) != 0)))


def _before_dropout(weights: Weights, x: Tensor) -> Tensor:
    return x if weights.before is None else weights.before
