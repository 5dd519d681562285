"""Biases on the scores that depend on the distance between a query and a key."""

import math
from typing import Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attention_lab.attention.positions.constant_buffer import ConstantBuffer
from attention_lab.attention.positions.relative import Layout, Relative
from attention_lab.attention.torch_state import without_autocast

BUCKETS = 32
"""Buckets of distances, as in T5."""
FARTHEST = 128
"""The distance up to which the ranges of the buckets grow, as in T5."""


def _deltas(
    queries: int, keys: int, offset: int, prefix: int, device: torch.device
) -> tuple[Int[Tensor, "Q K"], Bool[Tensor, "Q K"]]:
    """The position of each key minus that of each query, and where neither belongs to the prefix."""
    query = torch.arange(offset, offset + queries, device=device).unsqueeze(-1)
    key = torch.arange(keys, device=device)
    return key - query, (query >= prefix) & (key >= prefix)


class Alibi(ConstantBuffer, Relative):
    """Bias `-m_h |i - j|` with the slopes `m_h = 2^(-8h/H)`, h = 1 ... H (2108.12409, section 3).

    The paper's model is causal; here the bias falls off equally towards later keys. A CLS token
    before the sequence is at distance 0 from every position; a CLS token after it, as under a causal mask,
    has the next position.
    """

    constant = "slopes"
    slopes: Tensor

    def __init__(self, heads: int, size: int, **layout: Unpack[Layout]) -> None:
        super().__init__(heads, size, **layout)
        self.register_buffer("slopes", self.values().to(torch.get_default_dtype()), persistent=False)

    def values(self) -> Tensor:
        """`m_h` of every head."""
        return 2 ** (torch.arange(1, self.heads + 1, dtype=torch.float64) * (-8 / self.heads))

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-m_h |i - j|`, 0 to and from the prefix."""
        delta, placed = _deltas(queries, keys, offset, self.prefix, self.slopes.device)
        return -self.slopes[:, None, None] * (delta.abs() * placed)


class Quadratic(Relative):
    """Bias `-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, a Gaussian around Delta_h (1911.03584, eq. 9).

    `delta` is the key's position minus the query's: a number, or rows and columns if there is a grid. The
    centre Delta_h and the sharpness alpha_h > 0 are learned. With scoring=constant only the bias matters, and
    sufficiently sharp heads act as the pixels of a convolution kernel.

    A CLS token before the sequence or after a grid is not part of the image: the bias to and from it
    is 0. After a sequence without a grid it has the next position.
    """

    def __init__(self, heads: int, size: int, **layout: Unpack[Layout]) -> None:
        super().__init__(heads, size, **layout)
        grid = layout.get("grid")
        self.grid = None if grid is None else tuple(grid)
        self.centre = nn.Parameter(torch.randn(heads, 1 if grid is None else 2) * math.sqrt(2))
        self.log_sharpness = nn.Parameter(torch.zeros(heads))

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`-alpha_h (|delta|^2 - 2 <delta, Delta_h>)`, 0 to and from positions off the sequence or grid."""
        query, query_placed = self._places(offset, queries)
        key, key_placed = self._places(0, keys)
        dtype = self.centre.dtype
        working = torch.promote_types(dtype, torch.float32)  # half precision cannot square distances
        delta = (key - query.unsqueeze(-2)).to(working)
        with without_autocast(self.centre):
            along = torch.einsum("qka,ha->hqk", delta, self.centre.to(working))
        sharpness = self.log_sharpness.to(working).exp()
        bias = sharpness[:, None, None] * (2 * along - delta.square().sum(-1))
        if dtype == torch.float16:  # a bias of infinity would give NaN, or mask a key
            largest = torch.finfo(dtype).max
            bias = bias.clamp(-largest, largest)
        return bias.to(dtype).masked_fill(~(query_placed.unsqueeze(-1) & key_placed), 0.0)

    def _places(self, start: int, count: int) -> tuple[Int[Tensor, "L a"], Bool[Tensor, " L"]]:
        """Coordinates of positions `start`, `start + 1`, ..., and which are on the sequence or grid."""
        position = torch.arange(start, start + count, device=self.centre.device) - self.prefix
        if self.grid is None:
            return position.unsqueeze(-1), position >= 0
        rows, columns = self.grid
        place = torch.stack([position // columns, position % columns], -1)
        return place, (position >= 0) & (position < rows * columns)


class T5Bias(ConstantBuffer, Relative):
    """Bias `b_h[bucket(delta)]`, learned for each head and bucket of distances (1910.10683, section 2.1).

    `delta` is the key's position minus the query's. If the attention is causal, all 32 buckets are for keys
    up to the query's position; otherwise half of them are, and half are for later keys. Of the n buckets of a
    direction, the first n / 2 hold one distance each. The others hold ranges that grow exponentially up to a
    distance of 128, and the last one everything beyond, so that sequences may be longer than in training.

    Here each layer has its own biases; in T5, all layers share those of the first. T5 does not scale its
    scores: for that, use `Dot`.
    """

    constant = "starts"
    starts: Tensor

    def __init__(self, heads: int, size: int, **layout: Unpack[Layout]) -> None:
        super().__init__(heads, size, **layout)
        self.register_buffer("starts", self.values(), persistent=False)
        self.table = nn.Parameter(torch.randn(BUCKETS, heads) * (heads * size) ** -0.5)

    def values(self) -> Tensor:
        """The smallest distance of every bucket but the first, in one direction."""
        buckets = BUCKETS if self.causal else BUCKETS // 2
        single = buckets // 2
        growth = (FARTHEST / single) ** (1 / (buckets - single))
        ranges = [math.ceil(round(single * growth**i, 6)) for i in range(buckets - single)]
        return torch.tensor([*range(1, single), *ranges])

    def bias(self, queries: int, keys: int, offset: int) -> Float[Tensor, "H Q K"]:
        """`b_h[bucket(delta)]`, 0 to and from the prefix."""
        delta, placed = _deltas(queries, keys, offset, self.prefix, self.starts.device)
        least = 1 - offset - queries
        each = torch.arange(least, keys - offset, device=self.starts.device)
        # A look-up for each pair in the small table would take ten times as long in the backward pass.
        index = (delta - least).flatten()
        bias = self.table[self._bucket(each)].T.index_select(1, index).view(-1, queries, keys)
        return bias if self.prefix == 0 else bias * placed

    def _bucket(self, delta: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
        distance = -delta if self.causal else delta.abs()
        bucket = (distance.unsqueeze(-1) >= self.starts).sum(-1)
        return bucket if self.causal else bucket + BUCKETS // 2 * (delta > 0)
