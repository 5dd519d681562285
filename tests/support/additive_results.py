"""Additive scores with their gradients, and how near they are to those of the formula."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attention_lab.attention.fast.additive.forms import LOGISTIC
from attention_lab.attention.fast.additive.scores import additive_scores, reference


def results(found: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The scores, and the gradients of a combination of them."""
    direction = torch.cos(torch.arange(found.numel(), dtype=torch.float64)).view(found.shape)
    return [found.detach(), *torch.autograd.grad((found.double() * direction).sum(), inputs)]


def close(inputs: Sequence[Tensor], activation: str, tolerance: float, compiled: bool | None = False) -> None:
    """Value and gradients against the formula in float64; errors relative to the sums of magnitudes."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    found = results(additive_scores(*inputs, activation, compiled=compiled), inputs)
    wanted = results(reference(*exact, activation), exact)
    largest = [float(x.detach().abs().max()) if x.numel() else 0.0 for x in exact]
    size = 1 if activation in LOGISTIC else 1 + largest[0] + largest[1]  # of f
    pairs = max(1, found[0].numel())
    scale = size * (1 + largest[2]) * exact[2].shape[-1]
    for got, want, count in zip(found, wanted, (1, pairs, pairs, pairs), strict=True):
        assert got.shape == want.shape
        assert torch.allclose(got.double(), want, rtol=tolerance, atol=tolerance * scale * math.sqrt(count))
