"""Positions inside attention: their base, and rotations of queries and keys."""

from collections.abc import Sequence
from functools import cache
from typing import TypedDict, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number
from attention_lab.attention.checks.positions import check_grid, check_vectors
from attention_lab.attention.torch_state import has_values, needs_plain_operations
from attention_lab.errors import LabError


class Layout(TypedDict, total=False):
    """The options of `Relative` that describe the layout of the positions; see `Relative`."""

    prefix: int
    grid: Sequence[int] | None
    causal: bool


class Relative(nn.Module):
    """Positions that act inside the attention of one layer: only differences of positions matter.

    Args:
        heads: number of heads H.
        size: size of the queries and keys of a head.
        prefix: number of leading positions that are not part of the sequence, such as a CLS token. They have
            no distance to any position: the bias to and from them is 0.
        grid: rows and columns if the sequence is an image read line by line.
        causal: whether a position attends only to itself and earlier ones.
    """

    def __init__(
        self,
        heads: int,
        size: int,
        *,
        prefix: int = 0,
        grid: Sequence[int] | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__()
        check_number("heads", heads, least=1, whole=True)
        check_number("size", size, least=1, whole=True)
        check_number("prefix", prefix, least=0, whole=True)
        check_grid(grid)
        self.heads, self.prefix, self.causal = heads, prefix, causal

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"heads={self.heads}, prefix={self.prefix}, causal={self.causal}"

    def rotate(self, x: Float[Tensor, "B H L dk"], offset: int) -> Float[Tensor, "B H L dk"]:
        """Queries or keys at positions `offset`, `offset + 1`, ..., prepared for the score."""
        return x

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"] | None:
        """The bias on the scores of queries at `offset`, ... against keys at 0, ...; None for no bias."""
        return None


class Rotary(Relative):
    """Rotates each pair of entries by an angle that grows with the position (2104.09864, eq. 34).

        x'[2i]   = x[2i] cos(p t_i) - x[2i+1] sin(p t_i)
        x'[2i+1] = x[2i+1] cos(p t_i) + x[2i] sin(p t_i),   t_i = 10000^(-2i/d)

    The inner product of a rotated query and key depends only on the difference of their positions; any
    score may follow. A CLS token has a position like any other; it does not change the differences between
    the rest.

    Raises:
        LabError: the size of the heads is odd.
    """

    def __init__(self, heads: int, size: int, **layout: Unpack[Layout]) -> None:
        super().__init__(heads, size, **layout)
        if size % 2:
            raise LabError(
                f"model.positions=rotary rotates pairs of entries, but a head has {size}: "
                "choose model.d_model and model.heads so that d_model / heads is even"
            )

    def rotate(self, x: Float[Tensor, "B H L dk"], offset: int) -> Float[Tensor, "B H L dk"]:
        """`x` rotated, the first row by the angles of position `offset`."""
        check_vectors(x, offset)
        end, size = offset + x.shape[-2], x.shape[-1]
        working = torch.promote_types(x.dtype, torch.float32)  # half precision cannot count to 4096
        if has_values(x) and not needs_plain_operations() and x.device.type == "cpu" and end <= REMEMBERED:
            cosine, sine = _remembered_turns(size, working)[:, offset:end]
        else:
            cosine, sine = _turns(offset, end, size, working, x.device)
        even, odd = x.to(working)[..., ::2], x.to(working)[..., 1::2]
        rotated = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
        return rotated.flatten(-2).to(x.dtype)


REMEMBERED = 4096
"""Positions whose angles are computed once on the CPU, where they take longer than rotating a short input."""


def _turns(start: int, end: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Cosines and sines `[2, L, d/2]` of the angles of positions `start` to `end - 1`."""
    exponents = torch.arange(0, size, 2, dtype=dtype, device=device) / size
    position = torch.arange(start, end, dtype=dtype, device=device)
    angles = position.unsqueeze(-1) * 10000.0**-exponents
    return torch.stack([angles.cos(), angles.sin()])


@cache
def _remembered_turns(size: int, dtype: torch.dtype) -> Tensor:
    """`_turns` of the first positions, shared by all layers."""
    with torch.inference_mode(False):  # not in inference mode: the tensors may be used in training later
        return _turns(0, REMEMBERED, size, dtype, torch.device("cpu"))
