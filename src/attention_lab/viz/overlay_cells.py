"""Attention over a picture and its pixels: ink on paper whose colour shows the weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.canvas import BAD, GOLD, INK, OUTLINE, PALETTE, PAPER, SHADES, THEMED
from attention_lab.viz.cells import Flags, shades

Colours = npt.NDArray[np.float64]
"""Ink [..] from 0 to 1, or sRGB [.., 3] from 0 to 255, or sRGB and opacity [.., 4]."""
Indices = npt.NDArray[np.int64]

DEEPEST = 0.6
"""The part of the colour map that is used; the picture's own ink must stay darker than any paper."""
_ROOM = 6  # minimum side in pixels of cells with lines between them
_FADED = 0.6  # how much ink fades where the weight is 0
_COLOURS = PALETTE.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Overlay:
    """Attention over the cells of a picture.

    Args:
        ink: [H, W] the picture, from 0 (paper) to 1 (ink).
        cell: side of a cell in pixels; H and W are multiples of it.
        weights: [Q, K] over the K cells.
        titles: label of each of the Q panels.
        gold: [Q] or [Q, G] the correct cells of each query, -1 for none.
        by_row: whether the cells are numbered row by row, or down each column, starting with the leftmost.

    Raises:
        ValueError: shapes do not fit each other, or a gold cell is beyond the last one.
    """

    ink: npt.NDArray[Any]
    cell: int
    weights: npt.NDArray[Any]
    titles: Sequence[str] = ()
    gold: npt.NDArray[np.integer[Any]] | None = None
    by_row: bool = False

    def __post_init__(self) -> None:
        if (
            self.ink.ndim != 2
            or self.cell < 1
            or any(size == 0 or size % self.cell for size in self.ink.shape)
        ):
            raise ValueError(
                f"a picture {self.ink.shape} does not consist of whole cells of {self.cell} pixels"
            )
        rows, columns = self.grid
        if self.weights.ndim != 2 or self.weights.shape[1] != rows * columns:
            raise ValueError(f"weights {self.weights.shape} do not fit {rows} x {columns} cells")
        gold = np.full(len(self.weights), -1) if self.gold is None else self.gold
        if len(gold) != len(self.weights) or (gold >= rows * columns).any():
            raise ValueError(f"gold {gold.shape} does not fit weights {self.weights.shape}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        height, width = self.ink.shape
        return height // self.cell, width // self.cell

    def on_grid(self, of_cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Reshape values of the cells [K] to [rows, columns]."""
        return of_cells.reshape(self.grid) if self.by_row else of_cells.reshape(self.grid[::-1]).T

    def golden(self, query: int) -> Flags:
        """[rows, columns] bool: the gold cells of a query."""
        cells = np.arange(self.weights.shape[1])
        gold = np.full(1, -1) if self.gold is None else np.atleast_1d(self.gold[query])
        return self.on_grid(np.isin(cells, gold))


def _depth(overlay: Overlay, query: int, maximum: float) -> tuple[Colours, Flags]:
    """[rows, columns]: the colour index of each cell's weight, and which cells are not finite."""
    weights = overlay.on_grid(overlay.weights[query]).astype(np.float64)
    bad = ~np.isfinite(weights)
    return shades(np.where(bad, 0, weights), maximum).astype(np.float64), bad


def paint(overlay: Overlay, query: int, ink: Colours, maximum: float) -> Colours:
    """[height, width, 3]: the picture's ink on paper whose colours show a query's weights."""
    if query < 0:
        return _blend(_COLOURS[PAPER], _COLOURS[INK], ink)
    depth, bad = _depth(overlay, query, maximum)
    paper = np.where(bad[..., None], _COLOURS[BAD], _COLOURS[np.rint(depth * DEEPEST).astype(int)])
    pen = _blend(paper, _COLOURS[INK], 1 - _FADED * (1 - np.sqrt(depth / (SHADES - 1))))
    cells = _cells(overlay.grid, *ink.shape)
    paper = paper[cells]
    _rule(paper, cells)
    panel: Colours = np.rint(_blend(paper, pen[cells], ink))
    panel[_outline(overlay.golden(query)[cells])] = _COLOURS[GOLD]
    return panel


def paint_themed(overlay: Overlay, query: int, ink: Colours, maximum: float) -> Colours:
    """[height, width, 4]: the same with opacity, for a page of any colour."""
    cells = _cells(overlay.grid, *ink.shape)
    if query < 0:
        alone: Colours = THEMED[INK] * np.where(np.arange(4) < 3, 1.0, ink[..., None])
        return alone
    depth, bad = _depth(overlay, query, maximum)
    share = depth[cells] / (SHADES - 1)
    strength = ink * (1 - _FADED / 2 * (1 - np.sqrt(share)))
    under = np.where(bad[cells], 1, DEEPEST * share) * (1 - strength)
    colour = np.where(bad[cells][..., None], _COLOURS[BAD], THEMED[SHADES - 1, :3])
    opacity = (strength + under)[..., None]
    mixed = (strength[..., None] * THEMED[INK, :3] + under[..., None] * colour) / np.maximum(opacity, 1e-6)
    panel: Colours = np.concatenate([mixed, 255 * opacity], axis=-1)
    panel[_outline(overlay.golden(query)[cells])] = THEMED[GOLD]
    return np.rint(panel)


def enlarged(ink: npt.NDArray[Any], height: int, width: int) -> Colours:
    """The picture at the size of a panel, smoothly interpolated."""
    image = Image.fromarray(np.rint(np.clip(ink, 0, 1) * 255).astype(np.uint8))
    larger = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(larger, np.float64) / 255


def _cells(grid: tuple[int, int], height: int, width: int) -> tuple[Indices, Indices]:
    """The row [height, 1] and column [1, width] of the cell of each pixel."""
    rows, columns = grid
    return np.arange(height)[:, None] * rows // height, np.arange(width)[None] * columns // width


def _blend(paper: Colours, pen: Colours, ink: Colours) -> Colours:
    """[.., 3]: an amount `ink` [..] of the colour `pen` on `paper`."""
    blended: Colours = paper + ink[..., None] * (pen - paper)
    return blended


def _rule(paper: Colours, cells: tuple[Indices, Indices]) -> None:
    """Draw thin lines between the cells if there is room, faint enough not to compete with the picture."""
    rows, columns = cells
    if columns.shape[1] < _ROOM * (1 + columns.max()):
        return
    lines = np.zeros(paper.shape[:2], bool)
    lines[:, 1:] |= np.diff(columns) > 0
    lines[1:] |= np.diff(rows, axis=0) > 0
    paper[lines] *= 0.96


def _outline(golden: Flags) -> Flags:
    """The inner edge of the region that is True."""
    height, width = golden.shape
    around, inside = np.pad(golden, OUTLINE), golden.copy()
    for y in (0, OUTLINE, 2 * OUTLINE):
        for x in (0, OUTLINE, 2 * OUTLINE):
            inside &= around[y : y + height, x : x + width]
    return golden & ~inside
