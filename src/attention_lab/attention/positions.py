"""Positions added to a sequence of embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.errors import LabError


def sinusoids(length: int, size: int, base: float = 10000.0) -> Float[Tensor, "L d"]:
    """`P[p, 2i] = sin(p / base^(2i/d))`, `P[p, 2i+1] = cos(p / base^(2i/d))` (1706.03762, section 3.5).

    An odd size ends in a sine.
    """
    exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * base**-exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :size].float()


class Sinusoidal(nn.Module):
    """Adds the sinusoids of 1706.03762, section 3.5; any length, any size, no parameters."""

    table: Tensor

    def __init__(self, size: int, length: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, size), persistent=False)

    def forward(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "B L d"]:
        """`x + P`."""
        length, size = x.shape[-2:]
        if length > len(self.table):
            self.table = sinusoids(2 * length, size).to(self.table)
        return x + self.table[:length].to(x.dtype)


class Learned(nn.Module):
    """Adds one learned vector a position, for up to `length` positions (1706.03762, table 3, row E)."""

    def __init__(self, size: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, size) * size**-0.5)

    def forward(self, x: Float[Tensor, "B L d"]) -> Float[Tensor, "B L d"]:
        """`x + P`; LabError beyond the length it was made for."""
        if x.shape[-2] > len(self.table):
            raise LabError(
                f"model.positions=learned was made for {len(self.table)} positions, got {x.shape[-2]}: "
                "use sinusoidal for longer inputs"
            )
        return x + self.table[: x.shape[-2]]


POSITIONS: dict[str, type[nn.Module] | None] = {"sinusoidal": Sinusoidal, "learned": Learned, "none": None}
"""Positions by the name that a configuration gives them."""


def make_positions(name: str, size: int, length: int) -> nn.Module:
    """The positions called `name`, for embeddings of `size` and usually up to `length` of them."""
    if name not in POSITIONS:
        raise LabError(f"model.positions={name} is unknown: choose {', '.join(POSITIONS)}")
    kind = POSITIONS[name]
    return nn.Identity() if kind is None else kind(size, length)
