"""Attention over the picture that was attended to, a panel for each output symbol (1502.03044, figure 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.canvas import PALETTE, THEMED, Canvas
from attention_lab.viz.cells import Flags, Scale
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
from attention_lab.viz.overlay_cells import DEEPEST, enlarged, paint, paint_themed

_MOST = 40  # panels
_WIDEST, _HIGHEST, _ZOOM = 440, 320, 10.0  # aims: pixels of a panel, and of a pixel of the picture
_LOWEST = 8  # pixels of a panel, below which it is made no smaller
_SHAPE = 1.5  # aim: width over height of the whole


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
    themed: bool = False,
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
        themed: whether the paper is transparent, for pages that may be light or dark.

    Returns:
        A picture in mode "RGB"; "RGBA" if it is themed.

    Raises:
        ValueError: `maximum` is not positive.
    """
    if not maximum > 0:
        raise ValueError(f"the largest weight of a scale is positive, not {maximum}")
    plan = arrange_overlays(overlay, title, subtitle)
    canvas = Canvas(plan.right + LEGEND, plan.full_height)
    draw_heading(canvas, plan.title, subtitle)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        canvas.frame(left, top, plan.width, plan.height)
        _caption(canvas, overlay, query, left, top - CAPTION // 2 - 1, plan.width)
    corner = plan.right, plan.top + CAPTION
    draw_legend(canvas, *corner, plan.legend, scale=scale, maximum=maximum, deepest=DEEPEST)

    pixels = (THEMED if themed else PALETTE)[canvas.pixels]
    ink = enlarged(overlay.ink, plan.height, plan.width)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        panel = paint_themed if themed else paint
        pixels[top : top + plan.height, left : left + plan.width] = panel(overlay, query, ink, scale, maximum)
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class Plan:
    """Panels of `height` x `width` pixels in rows of `columns`; `top` is left for margin and title."""

    panels: int
    columns: int
    height: int
    width: int
    top: int
    title: str = ""
    legend: tuple[str, ...] = ()

    @property
    def full_height(self) -> int:
        """Of the picture."""
        beside = self.top + CAPTION + (SAMPLES + SWATCH if self.legend else BAR_HEIGHT + 12)
        return max(self.bottom, beside) + MARGIN

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
        """Likewise downwards."""
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


def arrange_overlays(overlay: Overlay, title: str, subtitle: str) -> Plan:
    """Where panels stand, the title with what is left out, and what the legend has."""
    queries = min(len(overlay.weights), _MOST - 1)
    if left_out := len(overlay.weights) - queries:
        title = f"{title}   (first {queries} symbols, {left_out} left out)".strip()
    legend = ("gold",) if any(overlay.golden(query).any() for query in range(queries)) else ()
    plan = _arrange(overlay, queries + 1, MARGIN + heading_height(title, subtitle))
    return replace(plan, title=title, legend=legend)


def _arrange(overlay: Overlay, panels: int, top: int) -> Plan:
    """The largest panels that are wanted, or smaller ones where the picture would be too high."""
    height, width = overlay.ink.shape
    zoom = min(_ZOOM, _WIDEST / width, _HIGHEST / height)
    zoom = max(zoom, min(1.0, (LARGEST - MARGIN - LEGEND - GAP) / width))  # as it is, where there is room
    while True:
        size = max(1, round(height * zoom)), max(1, round(width * zoom))
        columns = _columns(panels, size[1] + GAP, CAPTION + size[0] + GAP)
        plan = Plan(panels, columns, *size, top)
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


def largest_weight(overlay: Overlay, query: int) -> str:
    """What is said of a query's weights."""
    weights = overlay.weights[query]
    return f"max {weights.max():.2f}" if np.isfinite(weights).all() else "not finite"


def _caption(canvas: Canvas, overlay: Overlay, query: int, left: int, line: int, width: int) -> None:
    """The symbol, and its largest weight on the right."""
    if query < 0:
        canvas.text("input", (left - 1, line), size=13, limit=width, strength=QUIET)
        return
    largest = largest_weight(overlay, query)
    room = width - label_mask(largest, 12).shape[1] - 10
    if query < len(overlay.titles):
        canvas.text(overlay.titles[query], (left - 1, line), size=17, limit=max(width // 3, room))
    if room >= width // 3:
        canvas.text(largest, (left + width, line), anchor=(1.0, 0.5), strength=QUIET)
