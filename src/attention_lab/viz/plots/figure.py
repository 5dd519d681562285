"""A figure of one or several panels.

matplotlib is imported only when a plot is drawn, because that takes a third of a second.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from attention_lab.viz.formats import Format, to_png, to_vectors
from attention_lab.viz.plots.drawing import (
    Key,
    Named,
    draw_bubbles,
    draw_cells,
    draw_dots,
    draw_lines,
    thin_ticks,
)
from attention_lab.viz.plots.panels import STYLE, THEMED_STYLE, Bubbles, Cells, Dots, Lines, Panel
from attention_lab.viz.plots.text_placement import (
    Bubble,
    families,
    fitted,
    move_to_ends,
    name_bubbles,
    write_heading,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THUMBNAIL = (5.0, 3.3)  # inches; text is legible at half that size


def draw_panels(
    panels: Sequence[Panel],
    *,
    title: str = "",
    note: str = "",
    stacked: bool = False,
    thumbnail: bool = False,
) -> Image.Image:
    """Draw panels side by side, or below one another if `stacked`, under a common title and a note.

    A `thumbnail` is smaller, with text of the same size, and transparent, for light and dark pages.
    """
    figure = make_figure(panels, title=title, note=note, stacked=stacked, thumbnail=thumbnail)
    pixels = np.asarray(figure.canvas.buffer_rgba())  # type: ignore[attr-defined]
    return Image.fromarray(pixels).convert("RGBA" if thumbnail else "RGB")


def plot_file(
    panels: Sequence[Panel], kind: Format = "png", *, title: str = "", note: str = "", stacked: bool = False
) -> bytes:
    """The picture that `draw_panels` draws, as the content of a file."""
    if kind == "png":
        return to_png(draw_panels(panels, title=title, note=note, stacked=stacked))
    return to_vectors(make_figure(panels, title=title, note=note, stacked=stacked), kind)


def make_figure(
    panels: Sequence[Panel],
    *,
    title: str = "",
    note: str = "",
    stacked: bool = False,
    thumbnail: bool = False,
) -> "Figure":
    """Make the figure that `draw_panels` turns into a picture, with one axes per panel."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    looks: list[str | Path | dict[str, Any]] = [
        "default",
        STYLE | {"font.family": families()},
        THEMED_STYLE if thumbnail else {},
    ]
    # The same everywhere, regardless of any matplotlibrc.
    with style.context(looks), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a glyph that no font has is drawn as a box
        figure = Figure(figsize=_THUMBNAIL if thumbnail else _inches(panels, stacked))
        FigureCanvasAgg(figure)
        key: Key = {}
        beside: dict[Axes, list[Bubble]] = {}
        ends: dict[Axes, list[Named]] = {}
        for place, (axes, panel) in enumerate(zip(_axes(figure, panels, stacked), panels, strict=True)):
            room = 72 * figure.get_figwidth() / (1 if stacked else len(panels)) - 45
            axes.set_title(fitted(panel.title, 11, room))
            axes.set_xlabel(fitted(panel.x_label, 10.5, room))
            match panel:
                case Lines():
                    names, ends[axes] = draw_lines(axes, panel)
                    key |= names
                case Dots():
                    key |= draw_dots(axes, panel, named=stacked or place == 0)
                case Cells():
                    draw_cells(axes, panel)
                case Bubbles():
                    names, beside[axes] = draw_bubbles(axes, panel)
                    key |= names
        write_heading(figure, title, note, key)
        figure.canvas.draw()  # only now are all positions known
        for axes, panel in zip(figure.axes, panels, strict=True):
            _place_texts(axes, panel, ends.get(axes, ()), beside.get(axes, ()))
        if ends or beside:
            figure.canvas.draw()
    return figure


def _place_texts(axes: "Axes", panel: Panel, ends: Sequence[Named], bubbles: Sequence[Bubble]) -> None:
    """Place what depends on the positions of everything else."""
    if isinstance(panel, Lines) and panel.ticks:
        thin_ticks(axes)
    if ends:
        move_to_ends(axes, ends)
    if bubbles:
        name_bubbles(axes, bubbles)


def _inches(panels: Sequence[Panel], stacked: bool) -> tuple[float, float]:
    """Width and height of the figure."""
    if stacked:
        return 8.0, 0.7 + sum(0.8 + 0.25 * _rows(panel) for panel in panels)
    wide = 4.4 if len(panels) < 4 else 3.4
    ends = [isinstance(panel, Lines) and panel.names == "ends" for panel in panels]
    return max(7.6, sum(6.2 if names else wide for names in ends)), 4.7


def _rows(panel: Panel) -> int:
    return max(1, len(panel.rows)) + bool(panel.heading) if isinstance(panel, Dots) else 12


def _axes(figure: "Figure", panels: Sequence[Panel], stacked: bool) -> "list[Axes]":
    if not stacked:
        return list(figure.subplots(1, len(panels), squeeze=False)[0])
    heights = [_rows(panel) for panel in panels]
    return list(figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0])
