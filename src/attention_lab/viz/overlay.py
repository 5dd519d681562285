"""Attention drawn over the input picture, one panel per output symbol (1502.03044, figure 2)."""

from dataclasses import dataclass, replace
from math import ceil, log

import numpy as np
from PIL import Image

from attention_lab.viz.canvas import PALETTE, THEMED, Canvas, Paper
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
from attention_lab.viz.overlay_cells import DEEPEST, Overlay, enlarged, paint, paint_themed

_MOST = 40  # panels
_WIDEST, _HIGHEST, _ZOOM = 440, 320, 10.0  # targets: sides of a panel, and magnification of the input picture
_LOWEST = 8  # minimum height of a panel in pixels
_READABLE = 120  # pixels in which a part of a long symbol can be recognised
_SHAPE = 1.5  # target ratio of width to height of the entire picture


def draw_overlays(
    overlay: Overlay,
    *,
    title: str = "",
    subtitle: str = "",
    maximum: float = 1.0,
    themed: bool = False,
) -> Image.Image:
    """Draw the picture alone, then once per query with the weights as the colours of the paper.

    Light is 0 and blue is `maximum`, the same in every panel. Where weights are small, the ink is faded too.
    Gold cells are outlined, and NaN and infinite ones are magenta. At most 39 queries are drawn.

    Args:
        overlay: picture, weights and titles.
        title: the title above all panels.
        subtitle: a smaller line below the title.
        maximum: the weight of the darkest colour; larger weights have the same colour.
        themed: whether the paper is transparent, for pages that may be light or dark.

    Returns:
        A picture in mode "RGB", or "RGBA" if `themed`.

    Raises:
        ValueError: `maximum` is not positive.
    """
    plan = arrange_overlays(overlay, title, subtitle)
    canvas = Canvas(plan.right + LEGEND, plan.full_height)
    surround(canvas, overlay, plan, subtitle, maximum)
    pixels = (THEMED if themed else PALETTE)[canvas.pixels]
    ink = enlarged(overlay.ink, plan.height, plan.width)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        panel = paint_themed if themed else paint
        pixels[top : top + plan.height, left : left + plan.width] = panel(overlay, query, ink, maximum)
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class Plan:
    """Panels of `height` x `width` pixels in rows of `columns`; the margin and title take `top` pixels."""

    panels: int
    columns: int
    height: int
    width: int
    top: int
    title: str = ""
    legend: tuple[str, ...] = ()

    @property
    def full_height(self) -> int:
        """Height of the entire picture."""
        beside = self.top + CAPTION + (SAMPLES + SWATCH if self.legend else BAR_HEIGHT + 12)
        return max(self.bottom, beside) + MARGIN

    @property
    def rows(self) -> int:
        """The number of rows needed for all panels."""
        return ceil(self.panels / self.columns)

    @property
    def across(self) -> int:
        """Distance from one panel to the next on its right."""
        return self.width + GAP

    @property
    def down(self) -> int:
        """Distance from one panel to the next below."""
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
    """Lay out the panels, and determine the title (with what is left out) and the legend's entries."""
    queries = min(len(overlay.weights), _MOST - 1)
    if left_out := len(overlay.weights) - queries:
        title = f"{title}   (first {queries} symbols, {left_out} left out)".strip()
    legend = ("gold",) if any(overlay.golden(query).any() for query in range(queries)) else ()
    plan = _arrange(overlay, queries + 1, MARGIN + heading_height(title, subtitle))
    return replace(plan, title=title, legend=legend)


def _arrange(overlay: Overlay, panels: int, top: int) -> Plan:
    """Lay out panels of the target size, or smaller ones if the picture would be too high."""
    height, width = overlay.ink.shape
    zoom = min(_ZOOM, _WIDEST / width, _HIGHEST / height)
    zoom = max(zoom, min(1.0, (LARGEST - MARGIN - LEGEND - GAP) / width))  # original size if there is room
    while True:
        size = max(1, round(height * zoom)), max(1, round(width * zoom))
        columns = _columns(panels, size[1] + GAP, CAPTION + size[0] + GAP)
        plan = Plan(panels, columns, *size, top)
        if plan.rows * plan.down <= LARGEST - HEADING - SUBHEADING - 2 * MARGIN or plan.height <= _LOWEST:
            return plan
        zoom *= 0.9


def _columns(panels: int, across: int, down: int) -> int:
    """Panels per row, so that the picture's ratio is about _SHAPE and no row is nearly empty."""

    def badness(columns: int) -> float:
        rows = ceil(panels / columns)
        shape = (columns * across + LEGEND) / (rows * down + HEADING)
        return abs(log(shape / _SHAPE)) + (rows * columns - panels) / panels

    most = max(1, min(panels, (LARGEST - MARGIN - LEGEND) // across))
    return min(range(1, most + 1), key=badness)


def surround(paper: Paper, overlay: Overlay, plan: Plan, subtitle: str, maximum: float) -> None:
    """Draw everything but the panels' pixels."""
    draw_heading(paper, plan.title, subtitle)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        paper.frame(left, top, plan.width, plan.height)
        _caption(paper, overlay, query, left, top - CAPTION // 2 - 1, plan.width)
    corner = plan.right, plan.top + CAPTION
    draw_legend(paper, *corner, plan.legend, maximum=maximum, deepest=DEEPEST)


def _largest_weight(overlay: Overlay, query: int) -> str:
    """The text that describes a query's weights."""
    weights = overlay.weights[query]
    return f"max {weights.max():.2f}" if np.isfinite(weights).all() else "not finite"


def _caption(paper: Paper, overlay: Overlay, query: int, left: int, line: int, width: int) -> None:
    """Write the symbol, and its largest weight on the right if there is room for both."""
    if query < 0:
        paper.text("input", (left - 1, line), size=13, limit=width, strength=QUIET)
        return
    largest = _largest_weight(overlay, query)
    room = width - label_mask(largest, 12).shape[1] - 10
    name = overlay.titles[query] if query < len(overlay.titles) else ""
    both = room >= min(_READABLE, label_mask(name[:_READABLE], 17).shape[1])
    if name:
        paper.text(name, (left - 1, line), size=17, limit=room if both else width)
    if both:
        paper.text(largest, (left + width, line), anchor=(1.0, 0.5), strength=QUIET)
