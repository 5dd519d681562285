"""Positions that are added to the embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number
from attention_lab.attention.checks.positions import check_vectors
from attention_lab.attention.positions.constant_buffer import ConstantBuffer
from attention_lab.errors import LabError


def sinusoids(length: int, size: int) -> Float[Tensor, "L d"]:
    """`P[p, 2i] = sin(p / 10000^(2i/d))`, `P[p, 2i+1] = cos(p / 10000^(2i/d))` (1706.03762, section 3.5).

    An odd `size` ends with a sine.
    """
    exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * 10000.0**-exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :size].float()


class Absolute(nn.Module):
    """Positions that are added to the embeddings; a CLS token has a position like any other token.

    Args:
        size: size of the embeddings.
        length: expected number of positions.
    """

    def __init__(self, size: int, length: int) -> None:
        super().__init__()
        check_number("size", size, least=1, whole=True)
        check_number("length", length, least=0, whole=True)


class Sinusoidal(ConstantBuffer, Absolute):
    """Adds the sinusoids of 1706.03762, section 3.5; any length, any size, no parameters."""

    constant = "table"
    table: Tensor

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.size, self.length = size, length
        self.register_buffer("table", self.values(), persistent=False)

    def extra_repr(self) -> str:
        """The sizes, for `print(model)`."""
        return f"size={self.size}, length={self.length}"

    def values(self) -> Tensor:
        """The sinusoids of the expected positions."""
        return sinusoids(self.length, self.size)

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`."""
        check_vectors(x, offset, self.size)
        end, table = offset + x.shape[-2], self.table
        if end > len(table):  # not stored: a growing buffer would differ between processes
            table = sinusoids(end, x.shape[-1]).to(table)
        return x + table[offset:end].to(x.dtype)


class Learned(Absolute):
    """Adds a learned vector per position, for up to `length` positions (1706.03762, table 3, row E)."""

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.table = nn.Parameter(torch.randn(length, size) * size**-0.5)

    def extra_repr(self) -> str:
        """The sizes, for `print(model)`."""
        return f"size={self.table.shape[-1]}, length={len(self.table)}"

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`; raises LabError for positions beyond `length`."""
        check_vectors(x, offset, self.table.shape[-1])
        end = offset + x.shape[-2]
        if end > len(self.table):
            raise LabError(
                f"model.positions=learned was made for {len(self.table)} positions, got {end}: "
                "use sinusoidal, rotary, alibi or t5 for longer inputs"
            )
        return x + self.table[offset:end]
