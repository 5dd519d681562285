"""Draw each kind of panel on the axes of a figure."""

from collections.abc import Sequence
from itertools import chain, pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attention_lab.viz.plots.panels import (
    COLOURS,
    GRID,
    INK,
    MARKERS,
    QUIET,
    Bubbles,
    Cells,
    Dots,
    Interval,
    Lines,
    Series,
)
from attention_lab.viz.plots.text_placement import Bubble, End, fitted, name_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = (0, (4, 3))
_LOOKS: dict[str, dict[str, Any]] = {
    "line": {},
    "plain": {"marker": "none"},
    "dashed": {"marker": "none", "color": QUIET, "linestyle": _DASHES, "linewidth": 1.3, "zorder": 1.5},
    "dots": {"linestyle": "none", "markersize": 4, "markeredgewidth": 0.3},
    "gold": {"linestyle": "none", "marker": "D", "markersize": 4, "color": "#D98E04", "zorder": 1.9},
    "truth": {"marker": "none", "color": QUIET, "linestyle": (0, (1, 1.6)), "linewidth": 2.0, "zorder": 2.5},
    "samples": {"linestyle": "none", "marker": "o", "markersize": 5, "color": "#808A96", "zorder": 1.8},
}
_MARK: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.8}
_BARS: dict[str, Any] = {"elinewidth": 1.3, "capsize": 2.5}
_HUGE = 1e100  # beyond it, the arithmetic of axes overflows
_FLAT = 0.01  # the smallest range of a y axis, relative to its largest value

Named = tuple[End, Any]
"""The end of a line, and its name as a matplotlib annotation."""
Key = dict[str, Any]
"""The names in a legend, and the matplotlib artist drawn beside each."""


def draw_lines(axes: "Axes", panel: Lines) -> tuple[Key, list[Named]]:
    """Draw a panel of lines; returns its entries for the figure's legend, and the names at line ends."""
    axes.grid(axis="y")
    axes.set_ylabel(fitted(panel.y_label, 10.5, 250))
    categories = _categories(panel.series)
    _scale_x(axes, panel, categories)
    _scale_y(axes, panel)
    ends: list[End] = []
    named: list[Named] = []
    key: Key = {}
    for place, series in enumerate(panel.series):
        xs = _usable([categories.index(x) for x in series.x] if categories else series.x)
        ys = _usable(series.y)
        number = place if series.colour is None else series.colour
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        if series.style == "band":
            ends_of_band = _usable(series.intervals).T
            band = axes.fill_between(xs, *ends_of_band, color=colour, alpha=0.16, linewidth=0, zorder=1)
            if series.name:
                key[series.name] = band
            continue
        line = "none" if categories else "-"
        looks: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "linestyle": line,
            "zorder": 2 + place / 100,
        }
        looks |= _MARK | _BARS | _LOOKS[series.style]
        drawn = axes.errorbar(xs, ys, yerr=_lengths(ys, series.intervals, panel.within), **looks)
        if panel.apart:
            _shift(axes, drawn.get_children(), (place - (len(panel.series) - 1) / 2) * panel.apart)
        known = np.flatnonzero(np.isfinite(xs) & np.isfinite(ys))
        if series.name and known.size:
            key[series.name] = drawn
            ends.append(End(xs[known[-1]], ys[known[-1]], series.name, looks["color"]))
    if not panel.log_y and panel.within is None:
        _flatten(axes)
    if panel.names == "ends":
        named = name_ends(axes, ends, 10 + (0 if categories else panel.apart * len(panel.series) / 2))
    elif panel.names == "inside" and key:
        axes.legend(list(key.values()), [fitted(name, 9.5) for name in key])
    return (key if panel.names == "above" else {}), named


def _categories(series: Sequence[Series]) -> list[Any]:
    """The values of x in order of appearance, unless they are all numbers; then none."""
    values = list(dict.fromkeys(chain.from_iterable(one.x for one in series)))
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    return [] if numeric else values


def _scale_x(axes: "Axes", panel: Lines, categories: Sequence[Any]) -> None:
    """Set the scale and ticks of the x axis."""
    from matplotlib.ticker import NullLocator

    if panel.log_x:
        axes.set_xscale("log")
    if categories:
        axes.set_xticks(range(len(categories)), [fitted(str(one), 9.5, 120) for one in categories])
        axes.set_xlim(-0.5, len(categories) - 0.5)
    elif panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:,.12g}" for tick in panel.ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    elif not panel.log_x and all(float(x).is_integer() for series in panel.series for x in series.x):
        axes.locator_params(axis="x", integer=True)


def _scale_y(axes: "Axes", panel: Lines) -> None:
    """Set the scale, ticks and limits of the y axis; a small logarithmic range has plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if panel.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        values = np.concatenate([np.ones(0), *(_usable(series.y) for series in panel.series)])
        values = values[values > 0]
        if values.size and values.max() / values.min() < 300:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.format_y is not None:
        format_y = panel.format_y
        axes.yaxis.set_major_formatter(lambda value, _: format_y(value))
    if panel.within is not None:
        low, high = panel.within
        axes.set_ylim(low, high + 0.03 * (high - low))  # room for the markers of the largest values


def thin_ticks(axes: "Axes") -> None:
    """Hide numbers of the x axis that would touch others; the figure must already be laid out."""
    names = axes.get_xticklabels()
    boxes = [name.get_window_extent() for name in names]
    apart = 3 * axes.figure.dpi / 72
    steps = range(1, len(boxes) + 1)
    fits = (step for step in steps if all(a.x1 + apart <= b.x0 for a, b in pairwise(boxes[::step])))
    step = next(fits, 1)
    for number, name in enumerate(names):
        name.set_visible(number % step == 0)


def _shift(axes: "Axes", artists: Sequence[Any], points: float) -> None:
    """Shift artists after they are drawn, so that the limits of the axes remain those of the data."""
    from matplotlib.transforms import ScaledTranslation

    for artist in artists:
        artist.set_transform(axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans))


def _flatten(axes: "Axes") -> None:
    """Widen a y axis whose values hardly differ, so that they look alike and its ticks have few digits."""
    low, high = axes.dataLim.intervaly
    spare = _FLAT * max(abs(low), abs(high)) - (high - low)
    if np.isfinite(spare) and spare > 0:  # it is infinite if there are no values
        axes.set_ylim(low - spare / 2, high + spare / 2)
    elif low == high == 0:
        axes.set_ylim(-0.003, 0.05)  # matplotlib's limits would show negative numbers


def _usable(values: Any) -> npt.NDArray[np.float64]:
    """The values, with NaN for those that cannot be drawn."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(numbers) < _HUGE, numbers, np.nan)


def _lengths(
    middle: npt.NDArray[np.float64], intervals: Sequence[Interval], within: Interval | None = None
) -> npt.NDArray[np.float64] | None:
    """How far the intervals reach below and above the middle, `[2, N]`; None if there are none."""
    if not len(intervals):
        return None
    ends = _usable(intervals).clip(*(within or (-_HUGE, _HUGE)))
    lengths = np.maximum(0, np.stack([middle - ends[:, 0], ends[:, 1] - middle]))
    return lengths if np.isfinite(lengths).any() else None


def draw_dots(axes: "Axes", panel: Dots, *, named: bool) -> Key:
    """Draw a panel with one row per value; returns the entries of its legend."""
    from matplotlib.lines import Line2D

    axes.grid(axis="x")
    ys = range(len(panel.rows))[::-1]
    names = [fitted(row.name, 10, 210) if named else "" for row in panel.rows]
    heading = [fitted(panel.heading, 10, 260)] if named and panel.heading else []
    axes.set_yticks([*ys, *range(len(ys), len(ys) + len(heading))], [*names, *heading])
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=10)
    for label in axes.get_yticklabels()[len(ys) :]:
        label.set_color(QUIET)
    axes.set_ylim(-0.6, max(1, len(ys)) + len(heading) - 0.4)
    if panel.log:
        axes.set_xscale("log")
    if panel.reference is not None:
        axes.axvline(panel.reference, color=QUIET, linewidth=1.2, linestyle=_DASHES)
    key = {}
    for y, row in zip(ys, panel.rows, strict=True):
        axes.axhline(y, color=GRID, linewidth=0.8, zorder=0)
        colour = panel.colours[row.group % len(panel.colours)]
        looks = {"color": colour, "marker": MARKERS[row.group % len(MARKERS)], "linestyle": "none"} | _MARK
        value, rings = _usable([row.value]), _usable(row.points)
        axes.errorbar(value, [y], xerr=_lengths(value, [row.interval]), fmt="none", ecolor=colour, **_BARS)
        axes.plot(rings, [y] * len(rings), "o", color=colour, mfc="white", markersize=4.5, zorder=3)
        axes.plot(value, [y], markersize=7.5, zorder=4, **looks)
        if row.group < len(panel.groups):
            key[panel.groups[row.group]] = Line2D([], [], markersize=7.5, **looks)
    (left, right), (low, high) = axes.get_xlim(), panel.within
    axes.set_xlim(max(left, low - 0.05 * (right - low)), min(right, high + 0.05 * (high - left)))
    return {name: key[name] for name in panel.groups if name in key}


def draw_cells(axes: "Axes", panel: Cells) -> None:
    """Draw a panel of shaded cells."""
    height, width = panel.values.shape
    axes.pcolormesh(
        panel.values, cmap="Blues", vmin=0.0, vmax=panel.maximum, edgecolors=GRID, linewidth=0.4, zorder=1
    )
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for side in axes.spines.values():
        side.set(visible=True, linewidth=0.8)
    if max(height, width) < 3 * min(height, width):
        axes.set_aspect("equal")
    axes.set_ylabel(fitted(panel.y_label, 10.5, 250))
    axes.set_xticks([])
    axes.set_yticks([row + 0.5 for row in range(len(panel.rows))], panel.rows)
    axes.tick_params(axis="y", length=0)
    if panel.mark is not None:
        row, column = panel.mark
        axes.plot([column + 0.5], [row + 0.5], "o", markersize=9, fillstyle="none", color=COLOURS[1], mew=2)


def draw_bubbles(axes: "Axes", panel: Bubbles) -> tuple[Key, list[Bubble]]:
    """Draw a panel of bubbles; returns the entries of its legend, and the bubbles to be named."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    axes.grid(axis="both")
    axes.set_ylabel(fitted(panel.y_label, 10.5, 250))
    axes.margins(x=0.22, y=0.2)
    xs = np.concatenate([_usable(series.x) for series in panel.series])
    xs = xs[np.isfinite(xs)]
    if xs.size and xs.min() > 0 and xs.max() >= 10 * xs.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.xaxis.set_minor_locator(NullLocator())
    key, beside = {}, []
    largest = np.nanmax([0.0, *chain.from_iterable(_usable(series.areas) for series in panel.series)])
    for place, series in enumerate(panel.series):
        colour = COLOURS[place % len(COLOURS)]
        x, y, areas = _usable(series.x), _usable(series.y), np.full(len(series.x), 84.0)  # square points
        if len(series.areas) and largest > 0:
            areas = np.nan_to_num(_usable(series.areas)).clip(min=0) / largest * 1400  # none if negative
        xerr, yerr = _lengths(x, series.x_intervals), _lengths(y, series.intervals)
        axes.errorbar(x, y, yerr, xerr, fmt="none", ecolor=colour, **_BARS)
        axes.scatter(x, y, s=areas, color=colour, alpha=0.55, linewidths=1.2, edgecolors=colour)
        if series.texts:
            axes.plot(x, y, color=colour, linewidth=1.2, alpha=0.45, zorder=1)
            key[series.name] = Line2D([], [], color=colour, linewidth=4)
        for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
            name = fitted(series.texts[i] if series.texts else series.name, 9.5)
            text = f"{name}\n{series.areas[i]:,.0f}" if len(series.areas) else name
            beside.append(Bubble(text, x[i], y[i], areas[i] ** 0.5 / 2, colour))
    return key, beside
