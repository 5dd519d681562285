"""Gradients of a custom function by its plain formula, to differentiate again or to get several at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def by_plain_formula(upstream: Tensor) -> bool:
    """Whether a backward pass must be plain operations, given the gradient of the output.

    True if it is to be differentiated, or computes several gradients at once, as in a vectorised Jacobian.
    """
    return torch.is_grad_enabled() or torch._C._functorch.is_legacy_batchedtensor(upstream)


def plain_gradients(
    formula: Callable[..., Tensor], inputs: Sequence[Tensor], needed: Sequence[bool], upstream: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs that are `needed`, with a graph of their own; None for the others.

    Args:
        formula: the output from the inputs, in plain operations.
        inputs: those of the custom function; only the needed ones require a gradient.
        needed: `ctx.needs_input_grad`; may be longer than the inputs.
        upstream: the gradient of the output.
    """
    with torch.enable_grad():
        # Views, because one input may be another or be computed from it: each gets only its own share.
        inputs = [x.view_as(x) for x in inputs]
        output = formula(*inputs)
    chosen = [x for x, need in zip(inputs, needed, strict=False) if need]
    found = iter(torch.autograd.grad(output, chosen, upstream, create_graph=torch.is_grad_enabled()))
    return tuple(next(found) if need else None for _, need in zip(inputs, needed, strict=False))
