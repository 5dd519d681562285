"""Attention over the picture that was attended to, a panel for each output symbol (1502.03044, figure 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.canvas import BAD, GOLD, INK, PALETTE, PAPER, SHADES, Canvas
from attention_lab.viz.cells import Flags, Scale, shades
from attention_lab.viz.fonts import label_mask
from attention_lab.viz.layout import CAPTION, GAP, HEADING, LARGEST, LEGEND, MARGIN, SUBHEADING
from attention_lab.viz.legend import (
    BAR_HEIGHT,
    QUIET,
    SAMPLES,
    SWATCH,
    draw_heading,
    draw_legend,
    heading_height,
)

Colours = npt.NDArray[np.float64]
"""[..] of ink, 0 to 1, or [.., 3] of sRGB, 0 to 255."""
Indices = npt.NDArray[np.int64]

_MOST = 40  # panels
_WIDEST, _HIGHEST, _ZOOM = 440, 320, 10.0  # aims: pixels of a panel, and of a pixel of the picture
_LOWEST = 8  # pixels of a panel, below which it is made no smaller
_SHAPE = 1.5  # aim: width over height of the whole
_OUTLINE = 2
_ROOM = 6  # pixels of a cell from which on lines part them
_DEEPEST = 0.6  # of the colour map: the picture's own ink must stay darker than any paper
_FADED = 0.6  # how far ink where no weight is fades into the paper
_COLOURS = PALETTE.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Overlay:
    """Attention over the cells of a picture.

    Args:
        ink: [H, W] the picture, 0 (paper) to 1.
        cell: pixels of a side of a cell; H and W are multiples of it.
        weights: [Q, K] over the K cells, counted down each column, the left one first.
        titles: label of each of the Q panels.
        gold: [Q] or [Q, G] the right cells of each query, -1 where there is none.

    Raises:
        ValueError: shapes that do not fit each other, or a gold cell beyond the last.
    """

    ink: npt.NDArray[Any]
    cell: int
    weights: npt.NDArray[Any]
    titles: Sequence[str] = ()
    gold: npt.NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        if self.ink.ndim != 2 or any(size == 0 or size % self.cell for size in self.ink.shape):
            raise ValueError(f"a picture {self.ink.shape} is not of whole cells of {self.cell} pixels")
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
        """[K] as [rows, columns]."""
        return of_cells.reshape(self.grid[::-1]).T

    def golden(self, query: int) -> Flags:
        """[rows, columns] bool: the gold cells of a query."""
        cells = np.arange(self.weights.shape[1])
        gold = np.full(1, -1) if self.gold is None else np.atleast_1d(self.gold[query])
        return self.on_grid(np.isin(cells, gold))


def draw_overlays(
    overlay: Overlay,
    *,
    title: str = "",
    subtitle: str = "",
    scale: Scale = "linear",
    maximum: float = 1.0,
) -> Image.Image:
    """Draw the picture alone, and once for each query with its weights as the colours of its paper.

    Light is 0 and blue is `maximum`, the same in every panel; where there is little weight, the ink is faded
    too. Gold cells are outlined, NaN and infinite ones magenta. At most 39 queries are drawn.

    Args:
        overlay: picture, weights and titles.
        title: stands above them all.
        subtitle: stands below it, smaller.
        scale: "sqrt" sets weights near 0 apart, for maps of many small weights.
        maximum: the weight of the darkest colour; larger ones are drawn alike.

    Returns:
        A picture in mode "RGB".

    Raises:
        ValueError: `maximum` is not positive.
    """
    if not maximum > 0:
        raise ValueError(f"the largest weight of a scale is positive, not {maximum}")
    queries = min(len(overlay.weights), _MOST - 1)
    if left_out := len(overlay.weights) - queries:
        title = f"{title}   (first {queries} symbols, {left_out} left out)".strip()
    legend = ["gold"] if any(overlay.golden(query).any() for query in range(queries)) else []
    plan = _arrange(overlay, queries + 1, MARGIN + heading_height(title, subtitle))
    canvas = Canvas(plan.right + LEGEND, max(plan.bottom, plan.top + _legend_height(legend)) + MARGIN)
    draw_heading(canvas, title, subtitle)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        canvas.frame(left, top, plan.width, plan.height)
        _caption(canvas, overlay, query, left, top - CAPTION // 2 - 1, plan.width)
    draw_legend(
        canvas, plan.right, plan.top + CAPTION, legend, scale=scale, maximum=maximum, deepest=_DEEPEST
    )

    pixels = PALETTE[canvas.pixels]
    ink = _enlarged(overlay.ink, plan.height, plan.width)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        pixels[top : top + plan.height, left : left + plan.width] = (
            _blend(_COLOURS[PAPER], _COLOURS[INK], ink)
            if query < 0
            else _attended(overlay, query, ink, scale, maximum)
        )
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class _Plan:
    """Panels of `height` x `width` pixels in rows of `columns`; `top` is left for margin and title."""

    panels: int
    columns: int
    height: int
    width: int
    top: int

    @property
    def rows(self) -> int:
        """So many that all panels have a place."""
        return ceil(self.panels / self.columns)

    @property
    def across(self) -> int:
        """From one panel to the next on its right."""
        return self.width + GAP

    @property
    def down(self) -> int:
        """From one panel to the next below."""
        return CAPTION + self.height + GAP

    @property
    def right(self) -> int:
        """Where the legend begins."""
        return MARGIN + self.columns * self.across

    @property
    def bottom(self) -> int:
        """Where the last row ends."""
        return self.top + self.rows * self.down - GAP

    @property
    def corners(self) -> list[tuple[int, int]]:
        """Left and top of each panel, below its caption."""
        places = (divmod(number, self.columns) for number in range(self.panels))
        return [
            (MARGIN + column * self.across, self.top + row * self.down + CAPTION) for row, column in places
        ]


def _arrange(overlay: Overlay, panels: int, top: int) -> _Plan:
    """The largest panels that are wanted, or smaller ones where the picture would be too high."""
    height, width = overlay.ink.shape
    zoom = min(_ZOOM, _WIDEST / width, _HIGHEST / height)
    zoom = max(zoom, min(1.0, (LARGEST - MARGIN - LEGEND - GAP) / width))  # as it is, where there is room
    while True:
        size = max(1, round(height * zoom)), max(1, round(width * zoom))
        columns = _columns(panels, size[1] + GAP, CAPTION + size[0] + GAP)
        plan = _Plan(panels, columns, *size, top)
        if plan.rows * plan.down <= LARGEST - HEADING - SUBHEADING - 2 * MARGIN or plan.height <= _LOWEST:
            return plan
        zoom *= 0.9


def _columns(panels: int, across: int, down: int) -> int:
    """Panels in a row, so that the whole is about as wide as high times _SHAPE, and no row nearly empty."""

    def badness(columns: int) -> float:
        rows = ceil(panels / columns)
        shape = (columns * across + LEGEND) / (rows * down + HEADING)
        return abs(log(shape / _SHAPE)) + (rows * columns - panels) / panels

    most = max(1, min(panels, (LARGEST - MARGIN - LEGEND) // across))
    return min(range(1, most + 1), key=badness)


def _caption(canvas: Canvas, overlay: Overlay, query: int, left: int, line: int, width: int) -> None:
    """The symbol, and its largest weight on the right."""
    if query < 0:
        canvas.text("input", (left - 1, line), size=13, limit=width, strength=QUIET)
        return
    weights = overlay.weights[query]
    largest = f"max {weights.max():.2f}" if np.isfinite(weights).all() else "not finite"
    room = width - label_mask(largest, 12).shape[1] - 10
    if query < len(overlay.titles):
        canvas.text(overlay.titles[query], (left - 1, line), size=17, limit=max(width // 3, room))
    if room >= width // 3:
        canvas.text(largest, (left + width, line), anchor=(1.0, 0.5), strength=QUIET)


def _legend_height(entries: Sequence[str]) -> int:
    """With the name above the bar, and room for the last tick below it."""
    return CAPTION + (SAMPLES + SWATCH if entries else BAR_HEIGHT + 12)


def _attended(overlay: Overlay, query: int, ink: Colours, scale: Scale, maximum: float) -> Colours:
    """[height, width, 3]: the picture of so much ink, on paper of the colours of a query's weights."""
    weights = overlay.on_grid(overlay.weights[query]).astype(np.float64)
    bad = ~np.isfinite(weights)
    depth = shades(np.where(bad, 0, weights), scale, maximum)
    paper = np.where(bad[..., None], _COLOURS[BAD], _COLOURS[np.rint(depth * _DEEPEST).astype(int)])
    pen = _blend(paper, _COLOURS[INK], 1 - _FADED * (1 - np.sqrt(depth / (SHADES - 1))))
    cells = _cells(overlay.grid, *ink.shape)
    paper = paper[cells]
    _rule(paper, cells)
    panel: Colours = np.rint(_blend(paper, pen[cells], ink))
    panel[_outline(overlay.golden(query)[cells])] = _COLOURS[GOLD]
    return panel


def _enlarged(ink: npt.NDArray[Any], height: int, width: int) -> Colours:
    """The picture at the size of a panel, smooth."""
    image = Image.fromarray(np.rint(np.clip(ink, 0, 1) * 255).astype(np.uint8))
    larger = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(larger, np.float64) / 255


def _cells(grid: tuple[int, int], height: int, width: int) -> tuple[Indices, Indices]:
    """The row [height, 1] and column [1, width] of the cell of each pixel."""
    rows, columns = grid
    return np.arange(height)[:, None] * rows // height, np.arange(width)[None] * columns // width


def _blend(paper: Colours, pen: Colours, ink: Colours) -> Colours:
    """[.., 3]: so much `ink` [..] of the colour `pen` on `paper`."""
    blended: Colours = paper + ink[..., None] * (pen - paper)
    return blended


def _rule(paper: Colours, cells: tuple[Indices, Indices]) -> None:
    """Thin lines between the cells, where there is room, faint enough not to compete with the picture."""
    rows, columns = cells
    if columns.shape[1] < _ROOM * (1 + columns.max()):
        return
    lines = np.zeros(paper.shape[:2], bool)
    lines[:, 1:] |= np.diff(columns) > 0
    lines[1:] |= np.diff(rows, axis=0) > 0
    paper[lines] *= 0.96


def _outline(golden: Flags) -> Flags:
    """The edge, within it, of the region that is True."""
    height, width = golden.shape
    around, inside = np.pad(golden, _OUTLINE), golden.copy()
    for y in (0, _OUTLINE, 2 * _OUTLINE):
        for x in (0, _OUTLINE, 2 * _OUTLINE):
            inside &= around[y : y + height, x : x + width]
    return golden & ~inside
