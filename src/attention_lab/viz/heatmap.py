"""Attention maps side by side on one fixed colour scale, so that heads, steps and runs can be compared."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

from PIL import Image

from attention_lab.viz.canvas import LINE, Canvas, Paper
from attention_lab.viz.cells import Heatmap, draw_cells
from attention_lab.viz.fonts import label_mask
from attention_lab.viz.layout import (
    AXIS,
    CAPTION,
    GAP,
    LEGEND,
    MARGIN,
    MOST_ACROSS,
    SPACE,
    TITLE,
    Layout,
    arrange,
)
from attention_lab.viz.legend import QUIET, SAMPLES, SWATCH, draw_heading, draw_legend, heading_height

Drawn = TypeVar("Drawn", bound=Paper)

LEAST_SUMMARY = 60
"""With less space in pixels, the largest weight of a map is left out if it would have to be cut."""


def draw_heatmaps(
    maps: Sequence[Heatmap],
    *,
    title: str = "",
    subtitle: str = "",
    columns: int | None = None,
    maximum: float = 1.0,
) -> Image.Image:
    """Draw attention maps as a grid of panels with one colour bar.

    Light is 0 and dark is `maximum`, the same in every panel. Masked cells are hatched, NaN and
    infinite ones are magenta, and gold cells are outlined. If there are too many labels, only some
    are shown. A map with more cells than pixels shows the largest weight of each block and says so.
    At most 64 maps are drawn, and no side is longer than 2400 pixels.

    Args:
        maps: the panels, row by row.
        title: the title above all panels.
        subtitle: a smaller line below the title.
        columns: panels per row; by default about as many as rows.
        maximum: the weight of the darkest colour; larger weights have the same colour.

    Returns:
        A picture in palette mode ("P").

    Raises:
        ValueError: there are no maps, or `maximum` is not positive.
    """

    def cells(canvas: Canvas, heatmap: Heatmap, layout: Layout, left: int, top: int) -> None:
        draw_cells(canvas, heatmap, left, top, layout.cell, layout.block, maximum)

    return draw_maps(Canvas, cells, maps, title, subtitle, columns=columns, maximum=maximum).image()


def draw_maps(
    make: Callable[[int, int], Drawn],
    cells: Callable[[Drawn, Heatmap, Layout, int, int], None],
    maps: Sequence[Heatmap],
    title: str,
    subtitle: str,
    *,
    columns: int | None,
    maximum: float,
) -> Drawn:
    """The paper that `make` creates from width and height, with all maps; see `draw_heatmaps`.

    `cells` draws the cells of a map whose corner is (left, top), with a frame.
    """
    drawn, title = _choose_maps(maps, title)
    layout = arrange(drawn, columns)
    legend = _legend_entries(drawn)

    top = MARGIN + heading_height(title, subtitle)
    panels_right = MARGIN + layout.columns * layout.across
    legend_height = CAPTION + SAMPLES + len(legend) * (SWATCH + 8)
    height = max(layout.rows * layout.down - GAP, legend_height)
    paper = make(panels_right + LEGEND + MARGIN, top + height + MARGIN)
    draw_heading(paper, title, subtitle)
    for number, heatmap in enumerate(drawn):
        row, column = divmod(number, layout.columns)
        left = MARGIN + column * layout.across + layout.left
        corner = left, top + row * layout.down + CAPTION
        cells(paper, heatmap, layout, *corner)
        _surround(paper, heatmap, layout, *corner)
    draw_legend(paper, panels_right, top + CAPTION, legend, maximum=maximum)
    return paper


def _choose_maps(maps: Sequence[Heatmap], title: str) -> tuple[Sequence[Heatmap], str]:
    """The maps that one picture has room for, and the title, with the number of maps that are left out.

    Raises:
        ValueError: there are no maps.
    """
    if not maps:
        raise ValueError("no heatmaps to draw")
    drawn = maps[: MOST_ACROSS**2]
    if left_out := len(maps) - len(drawn):
        title = f"{title}   (first {len(drawn)} maps, {left_out} left out)".strip()
    return drawn, title


def _surround(paper: Paper, heatmap: Heatmap, layout: Layout, left: int, top: int) -> None:
    """Write the title, labels and axis names of a map whose corner is (left, top)."""
    queries, keys = heatmap.weights.shape
    height = ceil(queries / layout.block[0]) * layout.cell[0]
    width = ceil(keys / layout.block[1]) * layout.cell[1]
    summary = _summary(heatmap, layout)
    start, line = left - 1, top - CAPTION // 2 - 2
    if heatmap.title:
        start += 10 + paper.text(heatmap.title, (start, line), size=TITLE, limit=layout.width)
    room = left + layout.width - start
    if room > LEAST_SUMMARY or label_mask(summary, 12).shape[1] <= room:
        paper.text(summary, (start, line), limit=room, strength=QUIET)

    _query_labels(paper, heatmap, layout, left, top)
    _key_labels(paper, heatmap, layout, left, top + height)
    query = (left - layout.left + AXIS // 2 - 2, top + height // 2)
    paper.text("query", query, anchor=(0.5, 0.5), strength=QUIET, turned=True)
    key = (left + width // 2, top + height + layout.below - AXIS // 2 + 2)
    paper.text("key", key, anchor=(0.5, 0.5), strength=QUIET)


def _summary(heatmap: Heatmap, layout: Layout) -> str:
    """The text beside the title of a map."""
    pooled = " · largest of {} x {} per cell".format(*layout.block) if max(layout.block) > 1 else ""
    return heatmap.summary() + pooled


def _query_labels(paper: Paper, heatmap: Heatmap, layout: Layout, left: int, top: int) -> None:
    for number in range(0, min(len(heatmap.queries), heatmap.weights.shape[0]), layout.step[0]):
        middle = top + number // layout.block[0] * layout.cell[0] + layout.cell[0] // 2
        if layout.step[0] > 1:
            paper.fill(left - 4, middle, 3, 1, LINE)
        paper.text(
            heatmap.queries[number],
            (left - SPACE, middle),
            anchor=(1.0, 0.5),
            size=layout.label_size,
            limit=layout.query_room,
        )


def _key_labels(paper: Paper, heatmap: Heatmap, layout: Layout, left: int, bottom: int) -> None:
    for number in range(0, min(len(heatmap.keys), heatmap.weights.shape[1]), layout.step[1]):
        middle = left + number // layout.block[1] * layout.cell[1] + layout.cell[1] // 2
        if layout.step[1] > 1:
            paper.fill(middle, bottom + 1, 1, 3, LINE)
        label, size, room = heatmap.keys[number], layout.label_size, layout.key_room
        turned = layout.turns(label)
        place = (middle, bottom + SPACE)
        paper.text(label, place, anchor=(0.5, 0.0), size=size, limit=room, turned=turned)


def _legend_entries(maps: Sequence[Heatmap]) -> list[str]:
    """What the maps show besides colours."""
    present = {
        "masked": any(not heatmap.attended.all() for heatmap in maps),
        "gold": any(heatmap.golden.any() for heatmap in maps),
        "not finite": any(heatmap.bad.any() for heatmap in maps),
    }
    return [name for name, there in present.items() if there]
