"""Compute a function's value and gradients at random inputs, the work of most comparisons about attention."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def random_inputs(*shapes: Sequence[int], device: torch.device) -> list[Tensor]:
    """Normally distributed tensors of these shapes, the same in every run and on every device."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator).to(device) for shape in shapes]


def attention_inputs(shape: Sequence[int], device: torch.device) -> list[Tensor]:
    """Query, key and value of one shape, and factors for the context before it is summed."""
    return random_inputs(*[shape] * 4, device=device)


def forward_backward(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """A function's value, and the gradient of each of its inputs.

    Args:
        function: the function to measure, for example from query, key and value to the context.
        inputs: the function's inputs, then factors for its value before it is summed.
    """
    *given, weight = inputs
    leaves = [x.detach().requires_grad_() for x in given]
    value = function(*leaves)
    return [value.detach(), *torch.autograd.grad(value, leaves, weight)]
