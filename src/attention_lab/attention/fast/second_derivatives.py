"""Gradients of a custom function that can be differentiated again, from its plain formula."""

from collections.abc import Sequence

import torch
from torch import Tensor


def plain_gradients(
    output: Tensor, inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs that are `needed`, with a graph of their own; None for the others.

    Args:
        output: what the plain formula gives for the inputs.
        inputs: those of the custom function; only the needed ones require a gradient.
        needed: `ctx.needs_input_grad`; may be longer than the inputs.
        upstream: the gradient of the output.
    """
    chosen = [x for x, need in zip(inputs, needed, strict=False) if need]
    found = iter(torch.autograd.grad(output, chosen, upstream, create_graph=True))
    return tuple(next(found) if need else None for _, need in zip(inputs, needed, strict=False))
