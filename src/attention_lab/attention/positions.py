"""Positional encodings: added to the embeddings, or acting inside attention.

`Absolute` positions are added once, before the first layer. `Relative` ones act in every head of every
layer: they rotate queries and keys before the score, or add a bias to the scores. All of them take an
offset, so that decoding step by step gives the same result as the parallel pass.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number
from attention_lab.attention.fast.transforms import has_values, under_transform
from attention_lab.attention.part_checks import check_grid, check_vectors
from attention_lab.errors import LabError


def sinusoids(length: int, size: int) -> Float[Tensor, "L d"]:
    """`P[p, 2i] = sin(p / 10000^(2i/d))`, `P[p, 2i+1] = cos(p / 10000^(2i/d))` (1706.03762, section 3.5).

    An odd `size` ends with a sine.
    """
    exponents = torch.arange(0, size, 2, dtype=torch.float64) / size
    angles = torch.arange(length, dtype=torch.float64).unsqueeze(-1) * 10000.0**-exponents
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :size].float()


class _Constant(nn.Module):
    """Base of the positions with a constant buffer, which is not in checkpoints.

    `to_empty` and `load_state_dict(assign=True)` would leave it without its values.
    """

    constant: str
    """The name of the buffer."""

    def values(self) -> Tensor:
        """The values of the buffer."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Convert or move the module; the buffer gets its values again."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._fill(getattr(self, self.constant).device)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        """Load weights; if they replace those of the meta device, the buffer gets its values on the CPU."""
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
        if getattr(self, self.constant).is_meta and local_metadata.get("assign_to_params_buffers"):
            self._fill(torch.device("cpu"))

    def _fill(self, device: torch.device) -> None:
        """Give the buffer its values, on this device."""
        with torch.device("cpu"):  # a default device without values may be in force
            values = self.values()
        setattr(self, self.constant, values.to(device, getattr(self, self.constant).dtype))


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


class Sinusoidal(_Constant, Absolute):
    """Adds the sinusoids of 1706.03762, section 3.5; any length, any size, no parameters."""

    constant = "table"
    table: Tensor

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.size, self.length = size, length
        self.register_buffer("table", self.values(), persistent=False)

    def values(self) -> Tensor:
        """The sinusoids of the expected positions."""
        return sinusoids(self.length, self.size)

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`."""
        check_vectors(x, offset, self.size)
        end, table = offset + x.shape[-2], self.table
        if end > len(table):  # not stored: a buffer that grows would differ between processes
            table = sinusoids(end, x.shape[-1]).to(table)
        return x + table[offset:end].to(x.dtype)


class Learned(Absolute):
    """Adds a learned vector per position, for up to `length` positions (1706.03762, table 3, row E)."""

    def __init__(self, size: int, length: int) -> None:
        super().__init__(size, length)
        self.table = nn.Parameter(torch.randn(length, size) * size**-0.5)

    def forward(self, x: Float[Tensor, "B L d"], offset: int = 0) -> Float[Tensor, "B L d"]:
        """`x + P`, the first row at position `offset`; raises LabError for positions beyond `length`."""
        check_vectors(x, offset, self.table.shape[-1])
        end = offset + x.shape[-2]
        if end > len(self.table):
            raise LabError(
                f"model.positions=learned was made for {len(self.table)} positions, got {end}: "
                "use sinusoidal, rotary or alibi for longer inputs"
            )
        return x + self.table[offset:end]


class Relative(nn.Module):
    """Positions that act inside the attention of one layer: only differences of positions matter.

    Args:
        heads: number of heads H.
        size: size of the queries and keys of a head.
        prefix: number of leading positions that are not part of the sequence, such as a CLS token. They have
            no distance to any position: the bias to and from them is 0.
        grid: rows and columns if the sequence is an image read line by line.
    """

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__()
        check_number("heads", heads, least=1, whole=True)
        check_number("size", size, least=1, whole=True)
        check_number("prefix", prefix, least=0, whole=True)
        check_grid(grid)
        self.heads, self.prefix = heads, prefix

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

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
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
        if has_values(x) and not under_transform() and x.device.type == "cpu" and end <= REMEMBERED:
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
    with torch.inference_mode(False):  # training may follow
        return _turns(0, REMEMBERED, size, dtype, torch.device("cpu"))


class Alibi(_Constant, Relative):
    """Bias `-m_h |i - j|` with the slopes `m_h = 2^(-8h/H)`, h = 1 ... H (2108.12409, section 3).

    The paper's model is causal; here the bias falls off equally towards later keys. A CLS token
    before the sequence is at distance 0 from every position; a CLS token after it, as under a causal mask,
    has the next position.
    """

    constant = "slopes"
    slopes: Tensor

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
        self.register_buffer("slopes", self.values().to(torch.get_default_dtype()), persistent=False)

    def values(self) -> Tensor:
        """`m_h` of every head."""
        return 2 ** (torch.arange(1, self.heads + 1, dtype=torch.float64) * (-8 / self.heads))

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-m_h |i - j|`, 0 to and from the prefix."""
        query = torch.arange(offset, offset + queries, device=self.slopes.device)
        key = torch.arange(keys, device=self.slopes.device)
        placed = (query >= self.prefix).unsqueeze(-1) & (key >= self.prefix)
        return -self.slopes[:, None, None] * ((query.unsqueeze(-1) - key).abs() * placed)


class Quadratic(Relative):
    """Bias `-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, a Gaussian around Delta_h (1911.03584, eq. 9).

    `delta` is the key's position minus the query's: a number, or rows and columns if there is a grid. The
    centre Delta_h and the sharpness alpha_h > 0 are learned. With scoring=constant only the bias matters, and
    sufficiently sharp heads act as the pixels of a convolution kernel.

    A CLS token before the sequence or after a grid is not part of the image: the bias to and from it
    is 0. After a sequence without a grid it has the next position.
    """

    def __init__(self, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None) -> None:
        super().__init__(heads, size, prefix=prefix, grid=grid)
        self.grid = None if grid is None else tuple(grid)
        self.centre = nn.Parameter(torch.randn(heads, 1 if grid is None else 2) * math.sqrt(2))
        self.log_sharpness = nn.Parameter(torch.zeros(heads))

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, 0 to and from positions off the sequence or grid."""
        query, query_placed = self._places(offset, queries)
        key, key_placed = self._places(0, keys)
        delta = key - query.unsqueeze(-2)
        along = torch.einsum("qka,ha->hqk", delta, self.centre)
        bias = self.log_sharpness.exp()[:, None, None] * (2 * along - delta.square().sum(-1))
        return bias.masked_fill(~(query_placed.unsqueeze(-1) & key_placed), 0.0)

    def _places(self, start: int, count: int) -> tuple[Float[Tensor, "L a"], Bool[Tensor, " L"]]:
        """Coordinates of positions `start`, `start + 1`, ..., and which are on the sequence or grid."""
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
"""Positional encodings by their name in the configuration."""


def make_absolute(name: str, size: int, length: int) -> Absolute | None:
    """The absolute positions called `name` for embeddings of `size`; None if `name` is not of that kind."""
    kind = _kind(name)
    return kind(size, length) if kind is not None and issubclass(kind, Absolute) else None


def make_relative(
    name: str, heads: int, size: int, *, prefix: int = 0, grid: Sequence[int] | None = None
) -> Relative | None:
    """The relative positions called `name` for one layer, see `Relative`; None if it is not of that kind."""
    kind = _kind(name)
    if kind is None or not issubclass(kind, Relative):
        return None
    return kind(heads, size, prefix=prefix, grid=grid)


def _kind(name: str) -> type[Absolute] | type[Relative] | None:
    if name not in POSITIONS:
        raise LabError(f"model.positions={name} is unknown: choose {', '.join(POSITIONS)}")
    return POSITIONS[name]
