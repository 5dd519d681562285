"""Attention within a band, `|j - t| <= D`, in O(Q D): blocks of queries against strips of keys.

The queries are split into blocks of b. The queries of a block see only a strip of b + 2D keys (b + D if
causal), so that `Q (b + 2D)` scores are computed instead of `Q K`. Strips overlap; they are views of the
keys, not copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_lab.attention.fast.fused import fitted, fused_attention
from attention_lab.attention.torch_state import needs_plain_operations, product_dtype

GAIN = 2
"""Strips are faster if they save at least this factor of scores; measured on a CPU."""
LEAST = 2**15
"""The fewest scores per head for which strips are used; below that, calls cost more than they save."""


@dataclass(frozen=True)
class Blocks:
    """How queries at `offset`, `offset + 1`, ... and keys at 0, 1, ... are split.

    Attributes:
        queries: their number Q.
        keys: their number K.
        offset: position of the first query.
        before: number of keys that a query sees before its own position.
        after: number of keys that it sees after its own position.
        size: queries per block.
    """

    queries: int
    keys: int
    offset: int
    before: int
    after: int
    size: int

    @property
    def count(self) -> int:
        """Number of blocks n."""
        return -(-self.queries // self.size)

    @property
    def strip(self) -> int:
        """Number of keys s that a block sees."""
        return self.before + self.size + self.after

    def of_queries(self, x: Float[Tensor, "... Q d"]) -> Float[Tensor, "... n b d"]:
        """The blocks, the last one padded with zeros."""
        short = self.count * self.size - self.queries
        x = F.pad(x, (0, 0, 0, short)) if short else x
        return x.reshape(*x.shape[:-2], self.count, self.size, x.shape[-1])

    def row_of_keys(self, x: Float[Tensor, "... K d"]) -> Float[Tensor, "... L d"]:
        """The keys from the first strip to the last, padded with zeros where a strip runs past them."""
        return F.pad(x, (0, 0, *self._margins))

    def of_keys(self, row: Float[Tensor, "... L d"]) -> Float[Tensor, "... n s d"]:
        """The strips of a row of keys."""
        if needs_plain_operations():
            return row.unfold(-2, self.strip, self.size).mT
        strips: Tensor = _Strips.apply(row, self.strip, self.size)  # type: ignore[no-untyped-call]
        return strips

    def inside(
        self, visible: Bool[Tensor, "... 1 K"] | None, device: torch.device
    ) -> Bool[Tensor, "... n b s"]:
        """Which keys of its strip a query may attend to."""
        distance = self.distances(device)
        band = (distance >= -self.before) & (distance <= self.after)
        if visible is None:
            visible = torch.ones(1, self.keys, dtype=torch.bool, device=device)
        exists = F.pad(visible.squeeze(-2), self._margins).unfold(-1, self.strip, self.size)
        return band & exists.unsqueeze(-2)

    def distances(self, device: torch.device) -> Int[Tensor, "b s"]:
        """`j - t` for each key of a strip and each query of its block, the same in every block."""
        row = torch.arange(self.size, device=device).unsqueeze(-1)
        return torch.arange(self.strip, device=device) - row - self.before

    def joined(self, x: Float[Tensor, "... n b d"]) -> Float[Tensor, "... Q d"]:
        """Undo `of_queries`."""
        return x.flatten(-3, -2)[..., : self.queries, :]

    @property
    def _margins(self) -> tuple[int, int]:
        """Keys to pad before and after (negative: to drop), so that strips start at 0, b, 2b, ..."""
        return self.before - self.offset, self.offset + self.count * self.size + self.after - self.keys


class _Strips(torch.autograd.Function):
    """`x.unfold(-2, strip, size).mT` with a faster backward pass: torch's takes as long as a fused kernel."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, strip: int, size: int) -> Tensor:
        """The strips, as views."""
        return x.unfold(-2, strip, size).mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:
        """Save only the sizes."""
        x, ctx.strip, ctx.size = inputs
        ctx.length = x.shape[-2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """For each row, the sum over the strips that contain it, block by block."""
        *leading, count, _, features = gradient.shape
        more = -(-ctx.strip // ctx.size) - 1
        rows = (count + more) * ctx.size
        total = gradient.new_zeros(*leading, count + more, ctx.size, features)
        for number, part in enumerate(torch.split(gradient, ctx.size, -2)):
            total[..., number : number + count, : part.shape[-2], :] += part
        # not `flatten`, which fails where several gradients are computed at once
        return total.reshape(*leading, rows, features)[..., : ctx.length, :], None, None


def make_blocks(queries: int, keys: int, width: int, *, causal: bool, offset: int = 0) -> Blocks | None:
    """How to split for `|j - t| <= width`, and `j <= t` if `causal`; None if it would not pay off."""
    size = min(queries, 32 if width <= 32 else 64 if width <= 128 else 128)
    blocks = Blocks(queries, keys, offset, width, 0 if causal else width, size)
    pairs = queries * keys
    if pairs < LEAST or pairs < GAIN * blocks.count * size * blocks.strip or offset - width >= keys:
        return None
    return blocks


def band_attention(
    query: Float[Tensor, "... Q f"],
    key: Float[Tensor, "... K f"],
    value: Float[Tensor, "... K dv"],
    visible: Bool[Tensor, "... 1 K"] | None,
    blocks: Blocks,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Float[Tensor, "... Q dv"]:
    """`softmax(scale q k^T) v` within the band, with zeros for a row without a key; stores no weights.

    Args:
        query: features of the queries; the leading dimensions of all arguments broadcast.
        key: features of the keys.
        value: values.
        visible: the keys that may be attended to at all, True = attend; None for every key.
        blocks: how to split.
        scale: factor on the scores.
        dropout: probability with which a weight is dropped.
    """
    value_size = value.shape[-1]
    # Autocast would cast strips, and so copy every key several times.
    query, key, value = (x.to(product_dtype(x)) for x in fitted(query, key, value))
    query, key, value, inside = _cut(query, key, value, visible, blocks)
    if inside.dim() > 3 and len(inside) > 1:
        # The kernel expands its mask to every head and saves it; one example at a time, the heads share it.
        examples = zip(query, key, value, inside, strict=True)
        context = torch.stack([_fused(blocks, *each, scale=scale, dropout=dropout) for each in examples])
    else:
        context = _fused(blocks, query, key, value, inside, scale=scale, dropout=dropout)
    return blocks.joined(context)[..., :value_size]


def by_strips(
    attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    query: Float[Tensor, "... Q dq"],
    keys: Float[Tensor, "... K f"],
    value: Float[Tensor, "... K dv"],
    visible: Bool[Tensor, "... 1 K"] | None,
    blocks: Blocks,
) -> Float[Tensor, "... Q dv"]:
    """`attend(query, keys, value, mask)` within the band, for attention that has to form its weights.

    `attend` receives blocks `[n, ..., b, dq]` and strips `[n, ..., s, f]`, as if blocks were examples of a
    batch.
    """
    query, keys, value, inside = _cut(query, keys, value, visible, blocks)
    strips = blocks.of_keys(keys), blocks.of_keys(value)
    parts = (x.movedim(-3, 0) for x in (query, *strips, inside))
    return blocks.joined(attend(*parts).movedim(0, -3))


def _cut(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, blocks: Blocks
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Blocks, rows to be split into strips, and mask; the first three have the same leading dimensions."""
    rank = max(x.dim() for x in (query, key, value, query if visible is None else visible))
    parts = [x.reshape((1,) * (rank - x.dim()) + x.shape) for x in (query, key, value)]
    others = () if visible is None else visible.shape[:-2]
    leading = torch.broadcast_shapes(others, *(x.shape[:-2] for x in parts))  # type: ignore[no-untyped-call]
    query, key, value = (x.expand(*leading, *x.shape[-2:]) for x in parts)
    inside = blocks.inside(visible, query.device)
    inside = inside.reshape((1,) * (rank + 1 - inside.dim()) + inside.shape)
    return blocks.of_queries(query), blocks.row_of_keys(key), blocks.row_of_keys(value), inside


def _fused(
    blocks: Blocks, query: Tensor, key: Tensor, value: Tensor, inside: Tensor, *, scale: float, dropout: float
) -> Float[Tensor, "... n b dv"]:
    """All blocks by the fused kernel, with the blocks in its head dimension."""
    leading = query.shape[:-3]
    same = inside.shape[:-3].numel() == 1
    inside = inside.expand(*((1,) * len(leading) if same else leading), *inside.shape[-3:])
    key, value = blocks.of_keys(key), blocks.of_keys(value)
    query, key, value, inside = (x.reshape(-1, *x.shape[-3:]) for x in (query, key, value, inside))
    context = fused_attention(query, key, value, inside, scale=scale, dropout=dropout)
    return context.view(*leading, *context.shape[-3:])
