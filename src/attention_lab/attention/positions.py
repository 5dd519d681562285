"""Where things stand: positions added to a sequence of embeddings, or acting inside attention.

`Absolute` positions are added once, before the first layer. `Relative` ones act in every head of every layer:
they rotate queries and keys before the score, or add a bias to the scores. All count from an offset, so that
a decoder's step gives what the parallel pass gives.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.errors import LabError


def sinusoids(length: int, size: int, base: float = 10000.0) -> Float[Tensor, "L d"]:
    """`P[p, 2i] = sin(p / base^(2i/d))`, `P[p, 2i+1] = cos(p / base^(2i/d))` (1706.03762, section 3.5).

    An odd size ends in a sine.
    """
    exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * base**-exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :size].float()


class Absolute(nn.Module):
    """Positions that are added to the embeddings; a CLS token takes a place like any other.

    Args:
        size: of the embeddings.
        length: the usual number of positions.
    """

    def __init__(self, size: int, length: int) -> None:
        super().__init__()


class Sinusoidal(Absolute):
    """Adds the sinusoids of 1706.03762, section 3.5; any length, any size, no parameters."""

    table: Tensor

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.register_buffer("table", sinusoids(length, size), persistent=False)

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`."""
        end, table = offset + x.shape[-2], self.table
        if end > len(table):  # a buffer that grew would differ between processes
            table = sinusoids(end, x.shape[-1]).to(table)
        return x + table[offset:end].to(x.dtype)


class Learned(Absolute):
    """Adds one learned vector a position, for up to `length` positions (1706.03762, table 3, row E)."""

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.table = nn.Parameter(torch.randn(length, size) * size**-0.5)

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`; LabError beyond the length it was made for."""
        end = offset + x.shape[-2]
        if end > len(self.table):
            raise LabError(
                f"model.positions=learned was made for {len(self.table)} positions, got {end}: "
                "use sinusoidal, rotary or alibi for longer inputs"
            )
        return x + self.table[offset:end]


class Relative(nn.Module):
    """Positions that act inside the attention of one layer: only differences of positions count.

    Args:
        heads: number of heads H.
        size: of the queries and keys of a head.
        prefix: how many leading positions stand before the sequence, as a CLS token does. They are near to
            none and far from none: the bias to them and from them is 0.
        grid: rows and columns if the sequence is a picture read line by line.
    """

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__()
        self.prefix = prefix

    def rotate(self, x: Float[Tensor, "B H L dk"], offset: int) -> Float[Tensor, "B H L dk"]:
        """Queries or keys that stand at `offset`, `offset + 1`, ..., made ready for the score."""
        return x

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"] | None:
        """What is added to the scores of queries at `offset`, ... and keys at 0, ...; None for nothing."""
        return None


class Rotary(Relative):
    """Rotates each pair of entries by an angle that grows with the position (2104.09864, eq. 34).

        x'[2i]   = x[2i] cos(p t_i) - x[2i+1] sin(p t_i)
        x'[2i+1] = x[2i+1] cos(p t_i) + x[2i] sin(p t_i),   t_i = 10000^(-2i/d)

    The inner product of a rotated query and key depends on the difference of their positions alone; any score
    may follow. A CLS token takes a place like any other: wherever it stands, differences stay what they were.

    Raises:
        LabError: the size of a head is odd.
    """

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
        if size % 2:
            raise LabError(
                f"model.positions=rotary turns pairs of entries, and a head has {size}: "
                "choose model.d_model and model.heads so that d_model / heads is even"
            )

    def rotate(self, x: Float[Tensor, "B H L dk"], offset: int) -> Float[Tensor, "B H L dk"]:
        """`x` turned, the first row by the angles of position `offset`."""
        length, size = x.shape[-2:]
        working = torch.promote_types(x.dtype, torch.float32)  # half precision cannot count to 4096
        exponents = torch.arange(0, size, 2, dtype=working, device=x.device) / size
        position = torch.arange(offset, offset + length, dtype=working, device=x.device)
        angles = position.unsqueeze(-1) * 10000.0**-exponents
        cosine, sine = angles.cos(), angles.sin()
        even, odd = x.to(working)[..., ::2], x.to(working)[..., 1::2]
        turned = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
        return turned.flatten(-2).to(x.dtype)


class Alibi(Relative):
    """Bias `-m_h |i - j|` with the slopes `m_h = 2^(-8h/H)`, h = 1 ... H (2108.12409, section 3).

    The paper's bias is that of a causal model; here it falls off likewise towards later keys. A CLS token
    before the sequence is at distance 0 from all; behind it, as under a causal mask, it takes the next place.
    """

    slopes: Tensor

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
        exponents = torch.arange(1, heads + 1, dtype=torch.float64) * (-8 / heads)
        self.register_buffer("slopes", (2**exponents).to(torch.get_default_dtype()), persistent=False)

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-m_h |i - j|`, 0 to and from the prefix."""
        query = torch.arange(offset, offset + queries, device=self.slopes.device)
        key = torch.arange(keys, device=self.slopes.device)
        placed = (query >= self.prefix).unsqueeze(-1) & (key >= self.prefix)
        distance = (query.unsqueeze(-1) - key).abs() * placed
        return -self.slopes[:, None, None] * distance


class Quadratic(Relative):
    """Bias `-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, a Gaussian where head h looks (1911.03584, eq. 9).

    `delta` is the key's position minus the query's, a number, or rows and columns where there is a grid. The
    centre Delta_h and the sharpness alpha_h > 0 are learned. With scoring=constant this alone decides, and
    heads that are sharp enough are the pixels of a convolution's kernel.

    A CLS token, before the sequence or behind a grid, is no part of the picture: the bias to it and from it
    is 0. Behind a sequence without grid it takes the next place.
    """

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
        self.grid = None if grid is None else tuple(grid)
        axes = 1 if grid is None else 2
        self.centre = nn.Parameter(torch.randn(heads, axes) * math.sqrt(2))
        self.log_sharpness = nn.Parameter(torch.zeros(heads))

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, 0 to and from what has no place."""
        query, query_placed = self._places(offset, queries)
        key, key_placed = self._places(0, keys)
        delta = key - query.unsqueeze(-2)
        along = torch.einsum("qka,ha->hqk", delta, self.centre)
        bias = self.log_sharpness.exp()[:, None, None] * (2 * along - delta.square().sum(-1))
        return bias.masked_fill(~(query_placed.unsqueeze(-1) & key_placed), 0.0)

    def _places(self, start: int, count: int) -> tuple[Float[Tensor, "L a"], Bool[Tensor, " L"]]:
        """The places of positions `start`, `start + 1`, ..., and which of them are on the map."""
        position = torch.arange(start, start + count, device=self.centre.device) - self.prefix
        if self.grid is None:
            return position.unsqueeze(-1).to(self.centre.dtype), position >= 0
        rows, columns = self.grid
        place = torch.stack([position // columns, position % columns], -1).to(self.centre.dtype)
        return place, (position >= 0) & (position < rows * columns)


POSITIONS: dict[str, type[Absolute] | type[Relative] | None] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "quadratic": Quadratic,
    "none": None,
}
"""Positions by the name that a configuration gives them."""


def make_absolute(name: str, size: int, length: int) -> Absolute | None:
    """The positions called `name` if they are added to embeddings of `size`, usually `length` of them."""
    kind = _kind(name)
    return kind(size, length) if kind is not None and issubclass(kind, Absolute) else None


def make_relative(
    name: str, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None
) -> Relative | None:
    """The positions called `name` if they act inside attention, for one layer; see `Relative`."""
    kind = _kind(name)
    if kind is None or not issubclass(kind, Relative):
        return None
    return kind(heads, size, prefix=prefix, grid=grid)


def _kind(name: str) -> type[Absolute] | type[Relative] | None:
    if name not in POSITIONS:
        raise LabError(f"model.positions={name} is unknown: choose {', '.join(POSITIONS)}")
    return POSITIONS[name]
