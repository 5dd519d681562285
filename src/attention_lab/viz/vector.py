"""Attention maps as SVG or PDF: the pictures of `draw_heatmaps` and `draw_overlays` with vectors and text."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attention_lab.viz.canvas import BAD, GOLD, INK, LINE, PALETTE, PAPER, SHADES, Pixels
from attention_lab.viz.cells import Flags, Heatmap, Sides, cell_pixels, shades
from attention_lab.viz.fonts import label_mask, shorten
from attention_lab.viz.formats import Format, to_vectors
from attention_lab.viz.heatmap import draw_maps
from attention_lab.viz.layout import LEGEND, Layout
from attention_lab.viz.overlay import arrange_overlays, surround
from attention_lab.viz.overlay_cells import Overlay, enlarged, paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 20_000
"""A map with more cells is an image: as vectors it would be slow to display and several megabytes large."""
_MOST_PIXELS = 1 << 23  # of panels that are finer than the page; compressing more takes many seconds
_INCH = 100  # pixels per inch
_POINT = 72 / _INCH  # points per pixel
_COLOURS = PALETTE / 255


def heatmaps_file(
    maps: Sequence[Heatmap],
    kind: Format,
    *,
    title: str = "",
    subtitle: str = "",
    maximum: float = 1.0,
) -> bytes:
    """The picture that `draw_heatmaps` draws, as a file with vectors.

    Raises:
        ValueError: there are no maps, or `maximum` is not positive.
    """

    def cells(paper: _VectorPaper, heatmap: Heatmap, layout: Layout, left: int, top: int) -> None:
        _draw_cells(paper, heatmap, layout, left, top, maximum)

    paper = draw_maps(_VectorPaper, cells, maps, title, subtitle, columns=None, maximum=maximum)
    return to_vectors(paper.figure, kind)


def overlays_file(
    overlay: Overlay,
    kind: Format,
    *,
    title: str = "",
    subtitle: str = "",
    maximum: float = 1.0,
) -> bytes:
    """The picture that `draw_overlays` draws, as a file with real text; its panels are images.

    Raises:
        ValueError: `maximum` is not positive.
    """
    plan = arrange_overlays(overlay, title, subtitle)
    paper = _VectorPaper(plan.right + LEGEND, plan.full_height)
    surround(paper, overlay, plan, subtitle, maximum)
    finer = 2 if 4 * plan.panels * plan.height * plan.width <= _MOST_PIXELS else 1
    ink = enlarged(overlay.ink, finer * plan.height, finer * plan.width)
    for query, (left, top) in enumerate(plan.corners, start=-1):
        pixels = paint(overlay, query, ink, maximum)
        paper.image(pixels.astype(np.uint8), left, top, plan.width, plan.height)
    return to_vectors(paper.figure, kind)


class _VectorPaper:
    """A figure with pixel coordinates from its upper left corner: a `Paper` of vectors and real text."""

    def __init__(self, width: int, height: int) -> None:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        from attention_lab.viz.plots.text_placement import families

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
        at: tuple[int, int],
        *,
        anchor: tuple[float, float] = (0.0, 0.5),
        size: int = 12,
        limit: int = 2400,
        strength: float = 1.0,
        turned: bool = False,
    ) -> int:
        """Write text and return its width; see `Paper.text`."""
        text = shorten(text, size, limit)
        middle = 0 if turned else (0.5 - anchor[1]) * 1.4 * size
        self.axes.text(
            at[0],
            at[1] + middle,
            text,
            ha=("left", "center", "right")[round(2 * anchor[0])],
            va="top" if turned and anchor[1] == 0 else "center_baseline",
            rotation=90 if turned else 0,
            fontsize=size * _POINT,
            color=tuple(_COLOURS[round(PAPER + strength * (INK - PAPER))]),
            family=self.families,
            parse_math=False,
            usetex=False,
        )
        return int(label_mask(text, size).shape[1])

    def frame(self, left: int, top: int, width: int, height: int) -> None:
        """Draw a thin grey frame around the box."""
        self.box(left, top, width, height, edgecolor=_COLOURS[LINE])

    def fill(self, left: float, top: float, width: float, height: float, shade: int) -> None:
        """Fill the box with a colour of the palette."""
        self.box(left, top, width, height, fill=True, facecolor=_COLOURS[shade], linewidth=0)

    def ramp(self, left: int, top: int, width: int, height: int, deepest: float) -> None:
        """Fill the box with the colours of weights; see `Paper.ramp`."""
        bars = SHADES // 2
        step = height / bars
        for number in range(bars):  # from the top
            shade = round((1 - number / (bars - 1)) * deepest * (SHADES - 1))
            # Each extends below the next, so that no gap is visible between them.
            reach = min(2 * step, height - number * step)
            self.fill(left, top + number * step, width, reach, shade)

    def hatch(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a masked cell."""
        self.hatched(np.zeros((1, 2)), left, top, (height, width))

    def outline(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a gold cell."""
        self.box(left + 1, top + 1, width - 2, height - 2, edgecolor=_COLOURS[GOLD], linewidth=1.4)

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

    def hatched(self, places: npt.NDArray[Any], left: float, top: float, cell: Sides) -> None:
        """Draw masked cells: grey diagonals on light grey."""
        from matplotlib import rc_context

        ground, stripe = _COLOURS[PAPER + 4], _COLOURS[PAPER + 20]
        with rc_context({"hatch.linewidth": 0.5}):
            self.cells(places, left, top, cell, [ground], edgecolors=[stripe], linewidths=0, hatch="//////")


def _draw_cells(
    paper: _VectorPaper, heatmap: Heatmap, layout: Layout, left: int, top: int, maximum: float
) -> None:
    """Draw the cells of a map with a frame, and the outlines of gold cells."""
    queries, keys = heatmap.weights.shape
    down, across = layout.cell
    height, width = ceil(queries / layout.block[0]) * down, ceil(keys / layout.block[1]) * across
    if max(layout.block) > 1 or heatmap.weights.size > MOST_CELLS:
        pixels = cell_pixels(heatmap, (min(4, down), min(4, across)), layout.block, maximum)
        paper.image(PALETTE[pixels], left, top, width, height)
    else:
        _vector_cells(paper, heatmap, layout.cell, left, top, maximum)
    paper.frame(left, top, width, height)
    for row, column in np.argwhere(heatmap.golden) // layout.block:
        place = left + column * across, top + row * down
        paper.box(*place, across, down, edgecolor=_COLOURS[GOLD], linewidth=1.5, zorder=3)


def _vector_cells(
    paper: _VectorPaper, heatmap: Heatmap, cell: Sides, left: int, top: int, maximum: float
) -> None:
    """Draw each cell in one colour; the light cells of weight 0 are a single rectangle."""
    index = shades(heatmap.shown, maximum)
    (queries, keys), (down, across) = index.shape, cell
    paper.fill(left, top, keys * across, queries * down, 0)
    good: Flags = heatmap.attended & ~heatmap.bad
    positive = good & (index > 0)
    paper.cells(np.argwhere(positive), left, top, cell, _COLOURS[index[positive]])
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
