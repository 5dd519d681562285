"""Additive scores and their gradients on a GPU, with Triton: what is computed per pair stays in registers.

Computes the same as `chunks` for tanh and sigmoid, with half a division per pair; see `triton_kernels`.
The sums run in float32 in a fixed order, whatever the tiles are: the same input gives the same output.
"""

from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.additive.forms import LOGISTIC
from attention_lab.attention.fast.triton_tools import on_device_of, on_nvidia, triton_works

ROWS, COLUMNS = 8, 128
"""Largest tile of one program, which is one warp: each thread has 8 by 4 sums in its registers."""
OPTIONS = {"num_warps": 1, "enable_fp_fusion": True}
ENTRY_ROWS, ENTRY_UNITS = 16, 64
"""Tile in which the exponentials of queries and keys are computed."""


def usable(a: Tensor, activation: str) -> bool:
    """Whether a kernel applies: tanh or sigmoid, float32 on a CUDA device, with Triton working."""
    return a.is_cuda and a.dtype == torch.float32 and activation in LOGISTIC and triton_works()


def scores(
    a: Float[Tensor, "N Q h"], b: Float[Tensor, "N K h"], weight: Float[Tensor, "W h"], rate: float
) -> Float[Tensor, "N Q K"]:
    """`sum_h w_h r_h` of all pairs, with one w or one for each example."""
    a, b, weight = a.contiguous(), b.contiguous(), weight.contiguous()
    (examples, queries, hidden), keys = a.shape, b.shape[1]
    if not (a.numel() and b.numel()):
        return a.new_zeros(examples, queries, keys)
    out = a.new_empty(examples, queries, keys)
    row_tile, column_tile = _tile(queries, ROWS), _tile(keys, COLUMNS)
    tiles = -(-queries // row_tile) * -(-keys // column_tile)
    largest = a.new_zeros(2, examples)
    with on_device_of(a):
        x, y = (_exponentials(side, of, rate, by_unit=True) for side, of in zip((a, b), largest, strict=True))
        _kernels().scores[(tiles * examples,)](
            *(x, y, a, b, largest, weight, out),
            *(examples, queries, keys, hidden, 0 if len(weight) == 1 else hidden, rate),
            *(row_tile, column_tile, on_nvidia()),
            **OPTIONS,
        )
    return out


def gradient_sums(
    a: Float[Tensor, "N Q h"],
    b: Float[Tensor, "N K h"],
    gradient: Float[Tensor, "N Q K"],
    weights: int,
    rate: float,
) -> tuple[Float[Tensor, "N Q h"], Float[Tensor, "N K h"], Float[Tensor, "W h"]]:
    """As `Chunks.gradient_sums`: `sum_k g r (1 - r)`, `sum_q g r (1 - r)`, and `sum g r` for each w."""
    a, b = a.contiguous(), b.contiguous()
    if not (a.numel() and b.numel()):
        return torch.zeros_like(a), torch.zeros_like(b), a.new_zeros(weights, a.shape[-1])
    largest = a.new_zeros(2, len(a))
    with on_device_of(a):
        x, y = (
            _exponentials(side, of, rate, by_unit=False) for side, of in zip((a, b), largest, strict=True)
        )
        values = torch.empty_like(a)
        of_a = _sums_over_keys(x, y, a, b, largest, gradient.mT, rate, values)
        of_b = _sums_over_keys(y, x, b, a, largest, gradient, rate, None)
    of_w = values.sum(1)
    return of_a, of_b, of_w if weights > 1 else of_w.sum(0, keepdim=True)


def _exponentials(a: Tensor, largest: Tensor, rate: float, *, by_unit: bool) -> Tensor:
    """`exp(-rate a)` `[N, Q, h]`, or `[N, h, Q]`; and the largest exponent of each example."""
    examples, rows, hidden = a.shape
    out = a.new_empty(examples, hidden, rows) if by_unit else torch.empty_like(a)
    _kernels().exponentials[(-(-rows // ENTRY_ROWS) * examples,)](
        *(a, out, largest, rows, hidden),
        *((1, rows) if by_unit else (hidden, 1)),
        *(rate, ENTRY_ROWS, ENTRY_UNITS),
    )
    return out


def _sums_over_keys(
    x: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    largest: Tensor,
    gradient: Float[Tensor, "N K Q"],
    rate: float,
    values: Tensor | None,
) -> Tensor:
    """`sum_k g r (1 - r)` `[N, Q, h]`; writes `sum_k g r` to `values`."""
    (examples, queries, hidden), keys = a.shape, b.shape[1]
    row_tile, hidden_tile = _tile(queries, ROWS), _tile(hidden, COLUMNS)
    tiles = -(-queries // row_tile) * -(-hidden // hidden_tile)
    slopes = torch.empty_like(a)
    _kernels().gradient_sums[(tiles * examples,)](
        *(x, y, a, b, largest, gradient.contiguous(), slopes, slopes if values is None else values),
        *(examples, queries, keys, hidden, rate),
        *(row_tile, hidden_tile, values is not None, on_nvidia()),
        **OPTIONS,
    )
    return slopes


def _tile(size: int, most: int) -> int:
    """The largest power of 2 that exceeds neither argument: a tile must lie within the tensor."""
    return int(min(most, 1 << (size.bit_length() - 1)))


def _kernels() -> Any:
    return import_module("attention_lab.attention.fast.additive.triton_kernels")
