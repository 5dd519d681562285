"""One attention map and its pixels: colours, hatching, separators and outlines of gold cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.arrays import broadcast
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.viz.canvas import BAD, GOLD, OUTLINE, PAPER, SHADES, Canvas, Pixels, hatching

Flags = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
Sides = tuple[int, int]
"""Down and across: the size of a cell in pixels, or the number of weights that share a cell."""


def _check_labels(name: str, labels: object) -> None:
    """Raise TypeError if labels are not a list of texts."""
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise TypeError(f"{name} must be a list of texts, not {type(labels).__name__}")
    if other := [one for one in labels if not isinstance(one, str)]:
        raise TypeError(f"{name} must be a list of texts, not of {type(other[0]).__name__}")


@dataclass(frozen=True, eq=False)
class Heatmap:
    """Attention weights [Q, K] of one head, with everything needed to read them.

    Args:
        weights: [Q, K], of any float type.
        title: the title above the map.
        queries: label of each row.
        keys: label of each column.
        mask: bool, broadcastable to [Q, K]; True = attended.
        gold: [Q] the correct key of each query, -1 for none.

    Raises:
        TypeError: the weights or gold keys are not an array, or the title or labels are not texts.
        ValueError: a shape does not fit `weights`, or a gold key is beyond its last column.
    """

    weights: npt.NDArray[Any]
    title: str = ""
    queries: Sequence[str] = ()
    keys: Sequence[str] = ()
    mask: npt.NDArray[np.bool_] | None = None
    gold: npt.NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        weights, title = (cast(object, one) for one in (self.weights, self.title))
        if not isinstance(weights, np.ndarray):
            given = type(weights).__name__
            raise TypeError(f"weights must be a numpy array, not {given}: give weights.cpu().numpy()")
        if not isinstance(title, str):
            raise TypeError(f"title must be a text, not {type(title).__name__}")
        if self.weights.ndim != 2:
            raise ValueError(f"weights must have the shape [queries, keys], not {self.weights.shape}")
        queries, keys = self.weights.shape
        _check_labels("queries", self.queries)
        _check_labels("keys", self.keys)
        if self.mask is not None:
            broadcast(np.asarray(self.mask), self.weights.shape)
        if self.gold is not None:
            if not isinstance(cast(object, self.gold), np.ndarray) or self.gold.dtype.kind not in "iu":
                raise TypeError("gold must be a numpy array of whole numbers, -1 for none")
            if self.gold.shape != (queries,):
                raise ValueError(f"gold has shape {self.gold.shape}, but the map has {queries} queries")
            if (self.gold >= keys).any():
                raise ValueError(f"there is no gold key {self.gold.max()} in a map of {keys} keys")

    @property
    def attended(self) -> Flags:
        """[Q, K] bool: the cells that the mask does not hide."""
        shape = self.weights.shape
        return np.broadcast_to(np.True_ if self.mask is None else self.mask, shape)

    @cached_property
    def bad(self) -> Flags:
        """[Q, K] bool: attended cells that are NaN or infinite."""
        bad: Flags = self.attended & ~np.isfinite(self.weights)
        return bad

    @property
    def shown(self) -> npt.NDArray[Any]:
        """[Q, K]: the weights, 0 in masked and bad cells."""
        usable = self.attended & ~self.bad
        return self.weights if usable.all() else np.where(usable, self.weights, 0)

    @cached_property
    def golden(self) -> Flags:
        """[Q, K] bool: the gold cells."""
        queries, keys = self.weights.shape
        if self.gold is None:
            return np.zeros((queries, keys), bool)
        golden: Flags = self.gold[:, None] == np.arange(keys)
        return golden

    def summary(self) -> str:
        """The largest weight, and whatever colours cannot show."""
        usable = self.shown[self.attended & ~self.bad]
        parts = []
        if count := int(self.bad.sum()):
            parts.append(f"{count} not finite")
        parts.append(f"max {_short(float(usable.max()))}" if usable.size else "no weights")
        if usable.size and usable.min() < 0:
            parts.append(f"min {_short(float(usable.min()))}")
        return " · ".join(parts)


def record_heatmaps(record: AttentionRecord) -> list[Heatmap]:
    """The map of each head of a record; several are titled by their numbers in the module."""
    gold = record.gold if record.gold is not None and record.gold.ndim == 1 else None
    numbers = record.heads or range(len(record.weights))
    return [
        Heatmap(
            weights,
            title=f"head {number + 1}" if len(record.weights) > 1 else "",
            queries=record.queries,
            keys=record.keys,
            mask=mask,
            gold=gold,
        )
        for number, weights, mask in zip(numbers, record.weights, record.attended, strict=True)
    ]


def _short(weight: float) -> str:
    return f"{weight:.2f}" if weight == 0 or 0.1 <= abs(weight) < 1000 else f"{weight:.2g}"


def shades(weights: npt.NDArray[Any], maximum: float) -> Pixels:
    """Colour index of each weight: 0 .. SHADES - 1 for 0 .. `maximum`, clipped outside.

    Raises:
        ValueError: `maximum` is not positive.
    """
    if not maximum > 0:
        raise ValueError(f"the largest weight of a scale must be positive, not {maximum}")
    fraction = np.clip(weights.astype(np.float64) / maximum, 0, 1)
    return np.rint(fraction * (SHADES - 1)).astype(np.uint8)


def cell_pixels(heatmap: Heatmap, cell: Sides, block: Sides, maximum: float) -> Pixels:
    """Paint a map with cells of `cell` pixels, each showing the largest weight of a block.

    Shape: [ceil(Q / block[0]) * cell[0], ceil(K / block[1]) * cell[1]].
    """
    attended = _pool(heatmap.attended, block)  # a block is hatched only if it is masked completely
    pixels = _grow(shades(_pool(heatmap.shown, block), maximum), cell)
    if min(cell) >= 10:
        down, across = cell
        pixels[down::down] = pixels[:, across::across] = PAPER + 5
    if not attended.all():
        np.copyto(pixels, hatching(*pixels.shape), where=_grow(~attended, cell))
    if heatmap.bad.any():
        pixels[_grow(_pool(heatmap.bad, block), cell)] = BAD
    return pixels


def outline_gold(place: Pixels, heatmap: Heatmap, cell: Sides, block: Sides) -> None:
    """Outline the gold cells in `place`, the map's pixels plus a border of OUTLINE pixels.

    The line runs outside the cells, so it never hides a gold weight, however small the cell.
    """
    inside = np.pad(_grow(_pool(heatmap.golden, block), cell), OUTLINE)
    reach = OUTLINE if min(cell) >= 6 else 1
    place[_widen(_widen(inside, reach).T, reach).T & ~inside] = GOLD


def draw_cells(
    canvas: Canvas,
    heatmap: Heatmap,
    left: int,
    top: int,
    cell: Sides,
    block: Sides,
    maximum: float,
) -> None:
    """Draw the cells of a map with a frame, and the outlines of gold cells; (left, top) is its corner."""
    cells = cell_pixels(heatmap, cell, block, maximum)
    height, width = cells.shape
    canvas.pixels[top : top + height, left : left + width] = cells
    canvas.frame(left, top, width, height)
    if heatmap.golden.any():
        rows = slice(top - OUTLINE, top + height + OUTLINE)
        columns = slice(left - OUTLINE, left + width + OUTLINE)
        outline_gold(canvas.pixels[rows, columns], heatmap, cell, block)


def _widen(flags: Flags, reach: int) -> Flags:
    """Spread True by `reach` rows up and down."""
    wide = flags.copy()
    for step in range(1, reach + 1):
        wide[step:] |= flags[:-step]
        wide[:-step] |= flags[step:]
    return wide


def _pool(values: npt.NDArray[T], block: Sides) -> npt.NDArray[T]:
    for axis, count in enumerate(block):
        if count > 1:
            values = np.maximum.reduceat(values, np.arange(0, values.shape[axis], count), axis=axis)
    return values


def _grow(values: npt.NDArray[T], cell: Sides) -> npt.NDArray[T]:
    return values.repeat(cell[0], axis=0).repeat(cell[1], axis=1)
