"""Growth curves as a picture: time and memory against the size, on logarithmic axes."""

from collections.abc import Callable, Sequence
from io import BytesIO
from math import isfinite, log
from typing import TYPE_CHECKING

from attention_lab.viz.plot import COLOURS, MARKERS, spread_out
from benchmarks.harness import Growth, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, QUIET, GRID = "#1B222C", "#626A75", "#E5E8EC"
_MOST_TICKS = 6
_LINE_HEIGHT = 0.065  # of a name, as a share of the height of the axes
_LEAST = 1.0  # MiB: what is below is drawn there, for pages are counted rather than bytes

Measured = Sequence[tuple[int, Sequence[Row]]]


def draw_growth(growth: Growth, measured: Measured) -> bytes:
    """A PNG: time at the left, extra memory at the right where it was measured, a line for each way."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    memory = any(row.memory is not None for _, rows in measured for row in rows)
    figure = Figure(figsize=(12.4 if memory else 6.6, 4.4), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(growth.title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    names = list(dict.fromkeys(row.name for _, rows in measured for row in rows))
    axes = figure.subplots(1, 2 if memory else 1, squeeze=False)[0]
    _panel(axes[0], "time", growth.x, names, measured, lambda row: row.seconds, _seconds)
    if memory:
        _panel(axes[1], "extra memory", growth.x, names, measured, _mebibytes, lambda at: f"{at:,.0f} MiB")
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _mebibytes(row: Row) -> float:
    return float("nan") if row.memory is None else max(_LEAST, row.memory / 2**20)


def _seconds(at: float) -> str:
    if at >= 0.999:
        return f"{at:.3g} s"
    return f"{at * 1e3:.3g} ms" if at >= 0.999e-3 else f"{at * 1e6:.3g} µs"


def _panel(
    axes: "Axes",
    title: str,
    x: str,
    names: Sequence[str],
    measured: Measured,
    value: Callable[[Row], float],
    written: Callable[[float], str],
) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=QUIET)
    axes.set_xlabel(x, color=INK, fontsize=10.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=QUIET, labelsize=9)
    shown = [n for n, _ in measured][:: 1 + (len(measured) > _MOST_TICKS)]
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda at, _: written(at))
    ends = []
    for place, name in enumerate(names):
        points = [(n, value(row)) for n, rows in measured for row in rows if row.name == name]
        points = [(n, y) for n, y in points if isfinite(y)]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                color=COLOURS[place % len(COLOURS)],
                marker=MARKERS[place % len(MARKERS)],
                linewidth=1.8,
                markersize=6,
                markeredgecolor="white",
                markeredgewidth=0.8,
            )
            ends.append((*points[-1], name, COLOURS[place % len(COLOURS)]))
    _name_ends(axes, ends)


def _name_ends(axes: "Axes", ends: Sequence[tuple[int, float, str, str]]) -> None:
    """The names at the right, each at the height of its line's end and apart from one another."""
    low, high = axes.get_ylim()
    ordered = sorted(ends, key=lambda end: end[1])
    heights = spread_out([log(y / low) / log(high / low) for _, y, _, _ in ordered], _LINE_HEIGHT)
    for height, (_, _, name, colour) in zip(heights, ordered, strict=True):
        axes.annotate(
            name,
            (1.0, height),
            (6.0, 0.0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9.5,
            fontweight="bold",
            annotation_clip=False,
        )
