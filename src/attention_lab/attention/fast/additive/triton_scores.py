"""Additive scores and their gradients on a GPU, with Triton: the sigmoids of all pairs stay in registers.

Computes the same as `chunks` for tanh and sigmoid, in tiled kernels: r = sigmoid(rate (a + b)), which is
exact for every input, with one exponential and one division per pair. The sums run in float32 in a fixed
order, without atomic operations: the same input gives the same output.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.additive.forms import LOGISTIC

ROWS, COLUMNS, HIDDEN = 16, 16, 32
"""Tile sizes. Tiles and examples share one axis of the launch grid, as the other axes end at 65535."""


def usable(a: Tensor, activation: str) -> bool:
    """Whether a kernel applies: tanh or sigmoid, float32 on a CUDA device, with Triton installed."""
    return a.is_cuda and a.dtype == torch.float32 and activation in LOGISTIC and _installed()


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def scores(
    a: Float[Tensor, "N Q h"], b: Float[Tensor, "N K h"], weight: Float[Tensor, "W h"], rate: float
) -> Float[Tensor, "N Q K"]:
    """`sum_h w_h r_h` of all pairs, with one w or one for each example."""
    a, b, weight = a.contiguous(), b.contiguous(), weight.contiguous()
    (examples, queries, hidden), keys = a.shape, b.shape[1]
    out = a.new_empty(examples, queries, keys)
    if out.numel():
        tiles = -(-queries // ROWS) * -(-keys // COLUMNS)
        per_example = 0 if len(weight) == 1 else hidden
        kernel = import_module("attention_lab.attention.fast.additive.triton_kernels").scores
        with _on(a):
            kernel[(tiles * examples,)](
                a, b, weight, out, queries, keys, hidden, per_example, rate, ROWS, COLUMNS, HIDDEN
            )
    return out


def pull(
    a: Float[Tensor, "N Q h"],
    b: Float[Tensor, "N K h"],
    gradient: Float[Tensor, "N Q K"],
    weights: int,
    rate: float,
) -> tuple[Float[Tensor, "N Q h"], Float[Tensor, "N K h"], Float[Tensor, "W h"]]:
    """`sum_k g r (1 - r)`, `sum_q g r (1 - r)`, and `sum g r` for each of the weights."""
    of_a, values = _rows(a, b, gradient, rate)
    of_b, _ = _rows(b, a, gradient.mT, rate)
    of_w = values.sum(1)
    return of_a, of_b, of_w if weights > 1 else of_w.sum(0, keepdim=True)


def _rows(a: Tensor, b: Tensor, gradient: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """`sum_k g r (1 - r)` and `sum_k g r` `[N, Q, h]`."""
    a, b, gradient = a.contiguous(), b.contiguous(), gradient.contiguous()
    (examples, queries, hidden), keys = a.shape, b.shape[1]
    slopes, values = torch.empty_like(a), torch.empty_like(a)
    if a.numel():
        tiles = -(-queries // ROWS) * -(-hidden // HIDDEN)
        kernel = import_module("attention_lab.attention.fast.additive.triton_kernels").rows
        with _on(a):
            kernel[(tiles * examples,)](
                a, b, gradient, slopes, values, queries, keys, hidden, rate, ROWS, HIDDEN
            )
    return slopes, values


def _on(a: Tensor) -> Any:
    """Make the device of `a` current, because Triton launches there; no effect on a CPU (its interpreter)."""
    return torch.cuda.device_of(a)  # type: ignore[no-untyped-call]
