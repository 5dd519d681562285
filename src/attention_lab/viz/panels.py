"""Plots side by side, for findings: lines over numbers, dots with intervals for names, or shaded cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.plot import COLOURS, GRID, INK, MARKERS, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 160


@dataclass(frozen=True)
class Line:
    """A named row of points.

    Args:
        name: what the legend says; nothing for no entry.
        x: numbers.
        y: as many numbers.
        halves: half the width of the interval of each y.
        style: `line` with markers, `plain` line, `dashed` as for what theory says, or `dots` alone.
        colour: number of the colour; by default the line's place in its panel.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    halves: Sequence[float] | None = None
    style: str = "line"
    colour: int | None = None


@dataclass(frozen=True)
class Lines:
    """A panel of lines.

    Args:
        lines: what is drawn.
        title: of the panel.
        x_label: of the horizontal axis.
        y_label: of the vertical axis.
        log_x: whether x is on a logarithmic axis.
        log_y: whether y is.
        ticks: where x is marked; by default matplotlib's own choice.
        within: the least and the largest y there can be: the range of the axis, which no interval leaves.
    """

    lines: Sequence[Line]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()
    within: tuple[float, float] | None = None


@dataclass(frozen=True)
class Dots:
    """A panel with a dot for each name, from top to bottom.

    Args:
        names: of the rows.
        values: a number each.
        halves: half the width of the interval of each.
        groups: number of the colour of each.
        title: of the panel.
        x_label: of the values.
        log: whether the values are on a logarithmic axis.
        reference: a value that a vertical line marks.
    """

    names: Sequence[str]
    values: Sequence[float]
    halves: Sequence[float] | None = None
    groups: Sequence[int] = ()
    title: str = ""
    x_label: str = ""
    log: bool = False
    reference: float | None = None


@dataclass(frozen=True, eq=False)
class Cells:
    """A panel of shaded cells, light for 0 and dark for the largest.

    Args:
        values: `[rows, columns]`, at least 0.
        title: of the panel.
        x_label: of the columns.
        y_label: of the rows.
        rows: what stands beside the rows; by default nothing.
        mark: a row and a column, both from 0, that a ring marks.
        maximum: what is darkest; by default the largest value.
    """

    values: npt.NDArray[Any]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    rows: Sequence[str] = ()
    mark: tuple[int, int] | None = None
    maximum: float | None = None


Panel = Lines | Dots | Cells


def draw_panels(panels: Sequence[Panel], *, title: str = "", note: str = "") -> Image.Image:
    """Draw the panels in one row below a common title; needs matplotlib, see `plot.is_available`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = max(7.2, (4.4 if len(panels) < 4 else 3.4) * len(panels))
    figure = Figure(figsize=(width, 4.7), dpi=DPI, layout="constrained", facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.14, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    heading = f"{title}\n" if title else ""
    figure.suptitle(heading, x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK)
    figure.text(0.012, 0.905, note, fontsize=10, color=QUIET, va="center")
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(every, panels, strict=True):
        _dress(axes, panel)
        if isinstance(panel, Lines):
            _draw_lines(axes, panel)
        elif isinstance(panel, Cells):
            _draw_cells(axes, panel)
        else:
            _draw_dots(axes, panel, first=axes is every[0])
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return Image.fromarray(pixels).convert("RGB")


def _dress(axes: "Axes", panel: Panel) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelsize=9.5, length=3)
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK, pad=9)
    axes.set_xlabel(panel.x_label, color=INK, fontsize=10.5, labelpad=6)


def _draw_lines(axes: "Axes", panel: Lines) -> None:
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_ylabel(panel.y_label, color=INK, fontsize=10.5, labelpad=6)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        _log_y(axes, panel)
    if panel.within is not None:
        low, high = panel.within
        axes.set_ylim(low, high + 0.03 * (high - low))  # room for the markers of the largest
    if panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        axes.set_xticks([], minor=True)
    for place, line in enumerate(panel.lines):
        number = place if line.colour is None else line.colour
        theory = line.style == "dashed"
        axes.errorbar(
            line.x,
            line.y,
            yerr=_intervals(line, panel.within),
            label=line.name or "_",
            color=QUIET if theory else COLOURS[number % len(COLOURS)],
            linestyle={"dashed": (0, (4, 3)), "dots": "none"}.get(line.style, "-"),
            linewidth=1.3 if theory else 1.9,
            marker=MARKERS[number % len(MARKERS)] if line.style in ("line", "dots") else "none",
            markersize=6 if line.style == "line" else 4,
            markeredgecolor="white",
            markeredgewidth=0.7 if line.style == "line" else 0.3,
            elinewidth=1.2,
            capsize=2.5,
            zorder=1.5 if theory else 2 + place * 0.01,
        )
    if any(line.name for line in panel.lines):
        axes.legend(frameon=False, fontsize=9.5, labelcolor=INK, handlelength=2.2, borderaxespad=0.2)


def _intervals(line: Line, within: tuple[float, float] | None) -> list[list[float]] | None:
    """How far the interval of each y reaches below and above it."""
    if line.halves is None:
        return None
    low, high = (-math.inf, math.inf) if within is None else within
    pairs = list(zip(line.y, line.halves, strict=True))
    return [[min(half, y - low) for y, half in pairs], [min(half, high - y) for y, half in pairs]]


def _log_y(axes: "Axes", panel: Lines) -> None:
    """Plain numbers where the values span little, powers of ten elsewhere."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    values = [y for line in panel.lines for y in line.y if y > 0]
    if values and max(values) / min(values) < 300:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_dots(axes: "Axes", panel: Dots, *, first: bool) -> None:
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    rows = list(range(len(panel.names)))[::-1]
    axes.set_yticks(rows, panel.names if first else [""] * len(rows))
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=10)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    for row in rows:
        axes.axhline(row, color=GRID, linewidth=0.8, zorder=0)
    if panel.log:
        axes.set_xscale("log")
    if panel.reference is not None:
        axes.axvline(panel.reference, color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)))
    for place, (row, value) in enumerate(zip(rows, panel.values, strict=True)):
        group = panel.groups[place] if panel.groups else 0
        axes.errorbar(
            [value],
            [row],
            xerr=None if panel.halves is None else [panel.halves[place]],
            color=COLOURS[group % len(COLOURS)],
            marker=MARKERS[group % len(MARKERS)],
            markersize=7.5,
            markeredgecolor="white",
            markeredgewidth=0.8,
            elinewidth=1.6,
            capsize=3,
        )


def _draw_cells(axes: "Axes", panel: Cells) -> None:
    height, width = panel.values.shape
    axes.pcolormesh(
        panel.values, cmap="Blues", vmin=0.0, vmax=panel.maximum, edgecolors=GRID, linewidth=0.4, zorder=1
    )
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for side in axes.spines.values():
        side.set(visible=True, color=QUIET, linewidth=0.8)
    if max(height, width) < 3 * min(height, width):
        axes.set_aspect("equal")
    axes.set_ylabel(panel.y_label, color=INK, fontsize=10.5, labelpad=6)
    axes.set_xticks([])
    axes.set_yticks([row + 0.5 for row in range(len(panel.rows))], panel.rows)
    axes.tick_params(axis="y", length=0)
    if panel.mark is not None:
        row, column = panel.mark
        axes.plot(
            [column + 0.5], [row + 0.5], marker="o", markersize=9, fillstyle="none", color=COLOURS[1], mew=2
        )
