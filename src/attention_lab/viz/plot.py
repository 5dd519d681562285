"""Plots of measurements with their uncertainty, by matplotlib: an extra that may be missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.bubbles import Bubble, name_bubbles, show_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "drawn with matplotlib only: pip install 'attention-lab[plot]'"

# Okabe & Ito (2008), dark enough on white: apart for colour-blind eyes too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56719C", "#A6761D", "#666666")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, QUIET, GRID = "#1B222C", "#626A75", "#E5E8EC"
_APART = 5.0  # points between the markers of two lines at one x, so that their bars do not cover each other

Interval = tuple[float, float]

_LINE_HEIGHT = 0.062  # of a name, as a share of the height of the axes


@dataclass(frozen=True)
class Measured:
    """A named row of measurements.

    Args:
        name: what is written beside it.
        x: numbers, or anything else as categories.
        y: as many numbers.
        intervals: the lower and upper end of each interval of y; NaN: none.
        x_intervals: likewise of x.
        areas: what the area of a bubble is in proportion to.
        points: what stands beside each bubble in place of the name; the bubbles are then joined by a line.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    intervals: Sequence[Interval]
    x_intervals: Sequence[Interval] | None = None
    areas: Sequence[float] | None = None
    points: Sequence[str] = ()


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_lines(
    rows: Sequence[Measured], *, title: str = "", note: str = "", x_label: str = "x", y_label: str = "y"
) -> Image.Image:
    """A line for each row with bars for its intervals and its name at its end.

    Numbers stand where they belong, on a logarithmic axis if they span a factor of ten; anything else is
    one place each, without lines.
    """
    figure, axes = _paper(title, note, x_label, y_label)
    values = list(dict.fromkeys(value for row in rows for value in row.x))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numeric:
        _number_axis(axes, sorted(values))
    else:
        axes.set_xticks(range(len(values)), [str(value) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    for place, row in enumerate(rows):
        order = sorted(range(len(row.x)), key=lambda i: row.x[i]) if numeric else list(range(len(row.x)))
        xs = [row.x[i] if numeric else values.index(row.x[i]) for i in order]
        _bars(
            axes,
            xs,
            [row.y[i] for i in order],
            place,
            intervals=[row.intervals[i] for i in order],
            line=numeric,
            shift=(place - (len(rows) - 1) / 2) * _APART * (1 if numeric else 2.4),
        )
    _widen(axes, rows)
    _name_ends(axes, rows, values, numeric)
    return _image(figure)


def draw_bubbles(
    rows: Sequence[Measured], *, title: str = "", note: str = "", x_label: str = "x", y_label: str = "y"
) -> Image.Image:
    """A bubble for each measurement, its name beside it, bars for the intervals of x and y.

    Names stand in a legend where the bubbles of a row have texts of their own.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    figure, axes = _paper(title, note, x_label, y_label)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    xs = [float(x) for row in rows for x in row.x]
    if min(xs) > 0 and max(xs) / min(xs) >= 10:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.xaxis.set_minor_locator(NullLocator())
    bubbles: list[Bubble] = []
    largest = max((area for row in rows for area in row.areas or () if isfinite(area)), default=0.0)
    for place, row in enumerate(rows):
        joined = bool(row.points)
        _bars(
            axes,
            row.x,
            row.y,
            place,
            intervals=row.intervals,
            x_intervals=row.x_intervals,
            line=False,
            marker=False,
        )
        if joined:
            axes.plot(row.x, row.y, color=COLOURS[place % len(COLOURS)], linewidth=1.2, alpha=0.45, zorder=1)
        shown = row.areas if row.areas and largest > 0 else [0.06] * len(row.x)
        areas = [one / (largest or 1.0) * 1400 for one in shown]
        colour = COLOURS[place % len(COLOURS)]
        axes.scatter(row.x, row.y, s=areas, color=colour, alpha=0.55, linewidths=1.2, edgecolors=colour)
        for i, (x, y, area) in enumerate(zip(row.x, row.y, areas, strict=True)):
            name = row.points[i] if joined else row.name
            text = name if row.areas is None else f"{name}\n{row.areas[i]:,.0f}"
            if isfinite(x) and isfinite(y):
                bubbles.append(Bubble(text, x, y, area**0.5 / 2, colour))
    axes.margins(x=0.22)
    _widen(axes, rows, space=0.14)
    if any(row.points for row in rows):
        show_legend(axes, {row.name: COLOURS[place % len(COLOURS)] for place, row in enumerate(rows)})
    figure.canvas.draw()  # from here on it is known where everything is
    name_bubbles(axes, bubbles)
    return _image(figure)


def _paper(title: str, note: str, x_label: str, y_label: str) -> tuple["Figure", "Axes"]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), dpi=160, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.tick_params(colors=QUIET, labelsize=9.5, length=3)
    axes.set_xlabel(x_label, color=INK, fontsize=10.5, labelpad=6)
    axes.set_ylabel(y_label, color=INK, fontsize=10.5, labelpad=6)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=28 if note else 12)
    axes.annotate(note, (0, 1), (0, 10), "axes fraction", "offset points", fontsize=9.5, color=QUIET)
    return figure, axes


def _number_axis(axes: "Axes", values: Sequence[float]) -> None:
    """Ticks at the values themselves, if they are few."""
    from matplotlib.ticker import NullLocator

    low, high = values[0], values[-1]
    if low > 0 and high / low >= 10:
        axes.set_xscale("log")
        space = (high / low) ** 0.05
        axes.set_xlim(low / space, high * space)
    else:
        space = 0.05 * (high - low) or 0.5
        axes.set_xlim(low - space, high + space)
    if len(values) <= 12:
        axes.set_xticks(values, [f"{value:,g}" for value in values])
        axes.xaxis.set_minor_locator(NullLocator())


def _bars(
    axes: "Axes",
    xs: Sequence[float],
    ys: Sequence[float],
    place: int,
    *,
    intervals: Sequence[Interval],
    x_intervals: Sequence[Interval] | None = None,
    line: bool,
    marker: bool = True,
    shift: float = 0.0,
) -> None:
    from matplotlib.transforms import ScaledTranslation

    figure = axes.figure
    moved = axes.transData + ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans)
    axes.errorbar(
        xs,
        ys,
        yerr=_lengths(ys, intervals),
        xerr=None if x_intervals is None else _lengths(xs, x_intervals),
        marker=MARKERS[place % len(MARKERS)] if marker else "none",
        linestyle="-" if line else "none",
        color=COLOURS[place % len(COLOURS)],
        linewidth=1.8,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.8,
        elinewidth=1.3,
        capsize=3,
        capthick=1.3,
        transform=moved,
    )


def _lengths(means: Sequence[float], intervals: Sequence[Interval]) -> npt.NDArray[np.float64] | None:
    """The bars `[2, N]` below and above the means, None if there is none."""
    middle, ends = np.asarray(means, dtype=float), np.asarray(intervals, dtype=float)
    lengths = np.stack([middle - ends[:, 0], ends[:, 1] - middle])
    return lengths if np.isfinite(lengths).any() else None


def _widen(axes: "Axes", rows: Sequence[Measured], space: float = 0.06) -> None:
    """The limits of y: shifted markers do not widen them by themselves."""
    drawn = [value for row in rows for value in (*row.y, *chain.from_iterable(row.intervals))]
    ends = [value for value in drawn if isfinite(value)]
    if ends:
        space *= (max(ends) - min(ends)) or abs(max(ends)) or 1.0
        axes.set_ylim(min(ends) - space, max(ends) + space)


def _name_ends(axes: "Axes", rows: Sequence[Measured], values: Sequence[Any], numeric: bool) -> None:
    """The names at the right, each beside the end of its line, and apart from one another."""
    low, high = axes.get_ylim()
    last = max(values) if numeric else len(values) - 1
    ends = []
    for place, row in enumerate(rows):
        known = [i for i, y in enumerate(row.y) if isfinite(y)]
        if known and row.name:
            i = max(known, key=lambda i: row.x[i]) if numeric else known[-1]
            ends.append(((row.y[i] - low) / (high - low), place, row.name))
    ends.sort()
    heights = spread_out([height for height, _, _ in ends], _LINE_HEIGHT)
    for height, (_, place, name) in zip(heights, ends, strict=True):
        axes.annotate(
            name,
            (last, low + height * (high - low)),
            (14.0 + _APART * len(rows) * (0.5 if numeric else 1.2), 0.0),
            textcoords="offset points",
            va="center",
            color=COLOURS[place % len(COLOURS)],
            fontsize=10.5,
            fontweight="bold",
            annotation_clip=False,
        )


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights moved as little as need be, so that neighbours are at least `gap` apart.

    Heights that touch form a block around their mean (pool adjacent violators, least squares).
    """
    blocks: list[tuple[float, int]] = []  # sum of the heights less their place in line, and their number
    for place, height in enumerate(heights):
        blocks.append((height - place * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (total, count), (before, number) = blocks.pop(), blocks.pop()
            blocks.append((before + total, number + count))
    starts = [total / count for total, count in blocks for _ in range(count)]
    return [start + place * gap for place, start in enumerate(starts)]


def _image(figure: "Figure") -> Image.Image:
    figure.canvas.draw()
    return Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")  # type: ignore[attr-defined]
