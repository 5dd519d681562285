"""Attention maps as SVG or PDF: the pictures of `draw_heatmaps` and `draw_overlays` with vectors and text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attention_lab.viz.canvas import BAD, GOLD, INK, PALETTE, PAPER, SHADES, Pixels
from attention_lab.viz.cells import Flags, Heatmap, Scale, Sides, cell_pixels, shades
from attention_lab.viz.fonts import label_mask, shorten
from attention_lab.viz.formats import Format, to_vectors
from attention_lab.viz.heatmap import choose_maps, legend_entries, summary
from attention_lab.viz.layout import (
    AXIS,
    CAPTION,
    GAP,
    LEGEND,
    MARGIN,
    SPACE,
    SUBHEADING,
    TITLE,
    Layout,
    arrange,
)
from attention_lab.viz.legend import BAR_HEIGHT, QUIET, SAMPLES, SWATCH, TICKS, heading_height
from attention_lab.viz.overlay import Overlay, arrange_overlays, largest_weight
from attention_lab.viz.overlay_cells import DEEPEST, enlarged, paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 20_000
"""A map with more cells is an image: as vectors it would be slow to display and several megabytes large."""
_INCH = 100  # pixels per inch
_POINT = 72 / _INCH  # points per pixel
_COLOURS = PALETTE / 255
_FRAME = tuple(_COLOURS[PAPER + 22])


def heatmaps_file(
    maps: Sequence[Heatmap],
    kind: Format,
    *,
    title: str = "",
    subtitle: str = "",
    scale: Scale = "linear",
    maximum: float = 1.0,
) -> bytes:
    """The picture that `draw_heatmaps` draws, as a file with vectors.

    Args:
        maps: the panels, row by row; at most 64 are drawn.
        kind: `svg` or `pdf`.
        title: the title above all panels.
        subtitle: a smaller line below the title.
        scale: "sqrt" makes small weights easier to tell apart.
        maximum: the weight of the darkest colour.

    Raises:
        ValueError: there are no maps, or `maximum` is not positive.
    """
    drawn, title = choose_maps(maps, title)
    layout, legend = arrange(drawn, None), legend_entries(drawn)
    top = MARGIN + heading_height(title, subtitle)
    right = MARGIN + layout.columns * layout.across
    high = max(layout.rows * layout.down - GAP, CAPTION + SAMPLES + len(legend) * (SWATCH + 8))
    paper = _Paper(right + LEGEND + MARGIN, top + high + MARGIN)
    paper.heading(title, subtitle)
    for number, heatmap in enumerate(drawn):
        row, column = divmod(number, layout.columns)
        left = MARGIN + column * layout.across + layout.left
        _panel(paper, heatmap, layout, left, top + row * layout.down + CAPTION, scale, maximum)
    paper.legend(right, top + CAPTION, legend, scale, maximum)
    return to_vectors(paper.figure, kind)


def overlays_file(
    overlay: Overlay,
    kind: Format,
    *,
    title: str = "",
    subtitle: str = "",
    scale: Scale = "linear",
    maximum: float = 1.0,
) -> bytes:
    """The picture that `draw_overlays` draws, as a file with real text; its panels are images.

    Args:
        overlay: picture, weights and titles.
        kind: `svg` or `pdf`.
        title: the title above all panels.
        subtitle: a smaller line below the title.
        scale: "sqrt" makes small weights easier to tell apart.
        maximum: the weight of the darkest colour.

    Raises:
        ValueError: `maximum` is not positive.
    """
    plan = arrange_overlays(overlay, title, subtitle)
    paper = _Paper(plan.right + LEGEND, plan.full_height)
    paper.heading(plan.title, subtitle)
    ink = enlarged(overlay.ink, 2 * plan.height, 2 * plan.width)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        pixels = paint(overlay, query, ink, scale, maximum)
        paper.image(pixels.astype(np.uint8), left, top, plan.width, plan.height)
        paper.box(left, top, plan.width, plan.height, edgecolor=_FRAME)
        line = top - CAPTION // 2 - 1
        if query < 0:
            paper.text("input", left, line, size=13, limit=plan.width, strength=QUIET)
            continue
        said = largest_weight(overlay, query)
        room = plan.width - label_mask(said, 12).shape[1] - 10
        if query < len(overlay.titles):
            paper.text(overlay.titles[query], left, line, size=17, limit=max(plan.width // 3, room))
        if room >= plan.width // 3:
            paper.text(said, left + plan.width, line, ha="right", strength=QUIET)
    paper.legend(plan.right, plan.top + CAPTION, plan.legend, scale, maximum, DEEPEST)
    return to_vectors(paper.figure, kind)


class _Paper:
    """A figure with pixel coordinates from its upper left corner, like `Canvas`."""

    def __init__(self, width: int, height: int) -> None:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        from attention_lab.viz.labels import families

        with rc_context({"font.family": families()}):
            self.figure = Figure((width / _INCH, height / _INCH), dpi=_INCH)
            self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.families = families()
        self.width = width
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)

    def text(
        self,
        text: str,
        x: float,
        y: float,
        *,
        size: int = 12,
        limit: int = 2400,
        strength: float = 1.0,
        **place: Any,
    ) -> None:
        """Write a line; `place` is matplotlib's alignment and rotation."""
        colour = tuple(_COLOURS[round(PAPER + strength * (INK - PAPER))])
        look: dict[str, Any] = {"fontsize": size * _POINT, "color": colour, "family": self.families}
        place = {"va": "center_baseline", "ha": "left"} | place
        self.axes.text(x, y, shorten(text, size, limit), parse_math=False, **look, **place)

    def box(self, left: float, top: float, width: float, height: float, **look: Any) -> None:
        """Draw a rectangle."""
        from matplotlib.patches import Rectangle

        self.axes.add_patch(
            Rectangle((left, top), width, height, **({"fill": False, "linewidth": 0.7} | look))
        )

    def cells(
        self, places: npt.NDArray[Any], left: float, top: float, cell: Sides, colours: Any, **look: Any
    ) -> None:
        """Draw the cells at `places` [N, 2] (row, column) in one or N colours."""
        from matplotlib.collections import PolyCollection

        corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        polygons = np.array([left, top]) + np.array(cell[::-1]) * (places[:, None, ::-1] + corners)
        # An edge in the cell's own colour closes the gap that viewers show between two cells.
        style: dict[str, Any] = {"edgecolors": "face", "linewidths": 0.15} | look
        self.axes.add_collection(PolyCollection(polygons, facecolors=colours, **style), autolim=False)

    def image(self, pixels: Pixels, left: float, top: float, width: float, height: float) -> None:
        """Draw an image in a box."""
        extent = (left, left + width, top + height, top)
        self.axes.imshow(pixels, extent=extent, interpolation="none", aspect="auto")

    def heading(self, title: str, subtitle: str) -> None:
        """Write the picture's title and the line below it."""
        room = self.width - 2 * MARGIN
        if title:
            self.text(title, MARGIN, MARGIN + 10, size=17, limit=room)
        if subtitle:
            line = MARGIN + heading_height(title, subtitle) - SUBHEADING // 2 - 6
            self.text(subtitle, MARGIN, line, size=14, limit=room, strength=QUIET)

    def legend(
        self,
        left: int,
        top: int,
        entries: Sequence[str],
        scale: Scale,
        maximum: float,
        deepest: float = 1.0,
    ) -> None:
        """Draw the colour bar, and a sample of whatever else the maps show."""
        name = "weight" if scale == "linear" else "weight (√)"
        self.text(name, left, top - CAPTION // 2 - 2, strength=QUIET)
        bars = SHADES // 2
        step = BAR_HEIGHT / bars
        for number in range(bars):  # from the top
            colour = _COLOURS[round((1 - number / (bars - 1)) * deepest * (SHADES - 1))]
            # Each extends below the next, so that no gap is visible between them.
            reach = min(2 * step, BAR_HEIGHT - number * step)
            self.box(left, top + number * step, 16, reach, fill=True, facecolor=colour, linewidth=0)
        self.box(left, top, 16, BAR_HEIGHT, edgecolor=_FRAME)
        ticks = np.array(TICKS[scale]) * maximum
        for tick, shade in zip(ticks, shades(ticks, scale, maximum), strict=True):
            height = top + (1 - shade / (SHADES - 1)) * BAR_HEIGHT
            self.text(f"{tick:.3g}", left + 24, height, size=11)
        for number, name in enumerate(entries):
            self._sample(left, top + SAMPLES + number * (SWATCH + 8), name)

    def _sample(self, left: int, top: int, name: str) -> None:
        if name == "masked":
            self.hatched(np.zeros((1, 2)), left, top, (SWATCH, SWATCH))
        elif name == "gold":
            self.box(left + 1, top + 1, SWATCH - 2, SWATCH - 2, edgecolor=_COLOURS[GOLD], linewidth=1.4)
        else:
            self.box(left, top, SWATCH, SWATCH, fill=True, facecolor=_COLOURS[BAD], linewidth=0)
        self.text(name, left + SWATCH + 8, top + SWATCH / 2, size=11)

    def hatched(self, places: npt.NDArray[Any], left: float, top: float, cell: Sides) -> None:
        """Draw masked cells: grey diagonals on light grey."""
        from matplotlib import rc_context

        ground, stripe = _COLOURS[PAPER + 4], _COLOURS[PAPER + 20]
        with rc_context({"hatch.linewidth": 0.5}):
            self.cells(places, left, top, cell, [ground], edgecolors=[stripe], linewidths=0, hatch="//////")


def _panel(
    paper: _Paper, heatmap: Heatmap, layout: Layout, left: int, top: int, scale: Scale, maximum: float
) -> None:
    queries, keys = heatmap.weights.shape
    down, across = layout.cell
    height, width = -(-queries // layout.block[0]) * down, -(-keys // layout.block[1]) * across
    if max(layout.block) > 1 or heatmap.weights.size > MOST_CELLS:
        pixels = cell_pixels(heatmap, (min(4, down), min(4, across)), layout.block, scale, maximum)
        paper.image(PALETTE[pixels], left, top, width, height)
    else:
        _vector_cells(paper, heatmap, layout.cell, left, top, scale, maximum)
    paper.box(left, top, width, height, edgecolor=_FRAME)
    for row, column in np.argwhere(heatmap.golden) // layout.block:
        place = left + column * across, top + row * down
        paper.box(*place, across, down, edgecolor=_COLOURS[GOLD], linewidth=1.5, zorder=3)
    line = top - CAPTION // 2 - 2
    start = left
    if heatmap.title:
        paper.text(heatmap.title, start, line, size=TITLE, limit=layout.width)
        start += 10 + label_mask(heatmap.title, TITLE).shape[1]
    said = summary(heatmap, layout)
    if label_mask(said, 12).shape[1] <= left + layout.width - start:
        paper.text(said, start, line, strength=QUIET)
    _labels(paper, heatmap, layout, left, top, height)
    middle = left - layout.left + AXIS // 2 - 2
    paper.text("query", middle, top + height / 2, ha="center", rotation=90, strength=QUIET)
    below = top + height + layout.below - AXIS // 2 + 2
    paper.text("key", left + width / 2, below, ha="center", strength=QUIET)


def _vector_cells(
    paper: _Paper, heatmap: Heatmap, cell: Sides, left: int, top: int, scale: Scale, maximum: float
) -> None:
    """Draw each cell in one colour; the light cells of weight 0 are a single rectangle."""
    index = shades(heatmap.shown, scale, maximum)
    (queries, keys), (down, across) = index.shape, cell
    paper.box(left, top, keys * across, queries * down, fill=True, facecolor=_COLOURS[0], linewidth=0)
    good: Flags = heatmap.attended & ~heatmap.bad
    weighty = good & (index > 0)
    paper.cells(np.argwhere(weighty), left, top, cell, _COLOURS[index[weighty]])
    if heatmap.bad.any():
        paper.cells(np.argwhere(heatmap.bad), left, top, cell, [_COLOURS[BAD]])
    if not heatmap.attended.all():
        paper.hatched(np.argwhere(~heatmap.attended), left, top, cell)
    if min(cell) >= 10:
        lines = {"color": _COLOURS[PAPER + 5], "linewidth": 0.5, "zorder": 1.5}
        for place in range(1, queries):
            paper.axes.plot([left, left + keys * across], [top + place * down] * 2, **lines)
        for place in range(1, keys):
            paper.axes.plot([left + place * across] * 2, [top, top + queries * down], **lines)


def _labels(paper: _Paper, heatmap: Heatmap, layout: Layout, left: int, top: int, height: int) -> None:
    size = layout.label_size
    for number in range(0, min(len(heatmap.queries), heatmap.weights.shape[0]), layout.step[0]):
        middle = top + (number // layout.block[0] + 0.5) * layout.cell[0]
        label = heatmap.queries[number]
        paper.text(label, left - SPACE, middle, size=size, limit=layout.query_room, ha="right")
    for number in range(0, min(len(heatmap.keys), heatmap.weights.shape[1]), layout.step[1]):
        middle = left + (number // layout.block[1] + 0.5) * layout.cell[1]
        label = heatmap.keys[number]
        turned = layout.turns(label)
        place: dict[str, Any] = {"rotation": 90, "va": "top"} if turned else {}
        down = top + height + SPACE + (0 if turned else 0.7 * size)
        paper.text(label, middle, down, size=size, limit=layout.key_room, ha="center", **place)
