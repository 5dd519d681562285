"""Additive scores and their gradients in a loop each that inductor writes: no hidden unit is ever stored."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.additive.forms import Form
from attention_lab.attention.fast.compiling import Kernel

State = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Value = Callable[[Tensor], Tensor]
Slope = Callable[[Tensor, Tensor | None], Tensor]


def scores(
    form: Form, x: Float[Tensor, "N Q h"], y: Float[Tensor, "N K h"], weight: Float[Tensor, "W h"]
) -> Float[Tensor, "N Q K"] | None:
    """`sum_h w_h value(s_h)` of all pairs, with one w or one for each example; None: not compiled here."""
    found = _kernels(form)[0](x, y, weight.expand(len(x), -1).contiguous())
    return None if found is None else found[0]


def pull(
    form: Form,
    x: Float[Tensor, "N Q h"],
    y: Float[Tensor, "N K h"],
    gradient: Float[Tensor, "N Q K"],
    weights: int,
) -> tuple[Float[Tensor, "N Q h"], Float[Tensor, "N K h"], Float[Tensor, "W h"]] | None:
    """`sum_k g slope(s)`, `sum_q g slope(s)`, and `sum g value(s)` for each of the weights; None as above."""
    kernel = _kernels(form)[1]
    rows = kernel(x, y, gradient.contiguous())
    columns = kernel(y, x, gradient.mT.contiguous())
    if rows is None or columns is None:
        return None
    of_w = rows[1].sum(1)
    return rows[0], columns[0], of_w if weights > 1 else of_w.sum(0, keepdim=True)


def _kernels(form: Form) -> tuple[Kernel, Kernel]:
    return _compiled(form.state, form.value, form.slope)


@cache
def _compiled(state: State, value: Value, slope: Slope) -> tuple[Kernel, Kernel]:
    """Scores, and the sums over keys of both gradients; the sums over queries are the same, turned round."""

    def forward(x: Tensor, y: Tensor, weight: Tensor) -> Sequence[Tensor]:
        s = state(x.unsqueeze(2), y.unsqueeze(1), None)
        return ((value(s) * weight[:, None, None]).sum(-1),)

    def backward(x: Tensor, y: Tensor, gradient: Tensor) -> Sequence[Tensor]:
        s, g = state(x.unsqueeze(2), y.unsqueeze(1), None), gradient.unsqueeze(-1)
        return (g * slope(s, None)).sum(2), (g * value(s)).sum(2)

    def sample(*last: int) -> Sequence[Tensor]:
        examples, queries, keys, hidden = 12, 40, 56, 96  # enough for inductor to use all threads
        shapes = ((examples, queries, hidden), (examples, keys, hidden), last)
        return [torch.linspace(0.1, 1, math.prod(shape)).view(shape) for shape in shapes]

    return Kernel(forward, lambda: sample(12, 96)), Kernel(backward, lambda: sample(12, 40, 56))
