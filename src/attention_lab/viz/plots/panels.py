"""The parts of plots: their style, and panels of lines, dots in rows, bubbles or shaded cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, Literal

import numpy.typing as npt

# Okabe & Ito (2008), made dark enough for white paper; colour-blind readers can tell them apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56719C", "#A6761D", "#666666")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, QUIET, GRID = "#1B222C", "#626A75", "#E5E8EC"
STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.formatter.useoffset": False,
    "axes.labelcolor": INK,
    "axes.labelpad": 6,
    "axes.labelsize": 10.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.titlesize": 11,
    "axes.ymargin": 0.06,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.14,
    "figure.dpi": 160,
    "grid.color": GRID,
    "legend.borderaxespad": 0.2,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "text.color": INK,
    "xtick.color": QUIET,
    "xtick.labelsize": 9.5,
    "ytick.color": QUIET,
    "ytick.labelsize": 9.5,
}
"""The style of all plots, applied over matplotlib's defaults."""
_ANY = "#7F868F"  # has the same contrast with white as with dark grey
THEMED_STYLE: dict[str, Any] = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "legend.labelcolor"), _ANY),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), _ANY),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "grid.alpha": 0.3,
    "grid.color": _ANY,
}
"""A transparent style, applied over `STYLE`, for pages that may be light or dark."""

Interval = tuple[float, float]
NO_INTERVAL: Interval = (nan, nan)


@dataclass(frozen=True)
class Series:
    """A named row of points.

    Args:
        name: the name in the legend or beside the series; empty for no entry.
        x: numbers; anything else is treated as categories.
        y: as many numbers; one that is not finite breaks the line.
        intervals: the lower and upper end of each y's interval; NaN for none.
        x_intervals: the same for x.
        style: a `line` with markers, a `plain` line, a `dashed` one (theory), only `dots`, grey `samples`,
            `gold` samples (held out), `truth` (a dotted line), or a `band` between the ends of the intervals.
        colour: index of the colour; by default the position of the series in the panel.
        areas: values that the bubbles' areas are proportional to.
        texts: text beside each bubble instead of the name; a line then joins the bubbles.

    Raises:
        ValueError: x and y differ in number.
    """

    name: str
    x: Sequence[Any] | npt.NDArray[Any]
    y: Sequence[float] | npt.NDArray[Any]
    intervals: Sequence[Interval] = ()
    x_intervals: Sequence[Interval] = ()
    style: Literal["line", "plain", "dashed", "dots", "samples", "gold", "truth", "band"] = "line"
    colour: int | None = None
    areas: Sequence[float] = ()
    texts: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{self.name}: {len(self.x)} x but {len(self.y)} y")


@dataclass(frozen=True)
class Lines:
    """A panel of lines.

    Args:
        series: the series to draw.
        title: title of the panel.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is logarithmic.
        ticks: tick positions on the x axis; by default matplotlib's own.
        within: the smallest and largest possible y, to which the axis and the intervals are limited.
        names: where to write names: in a legend `inside` or `above`, or at the `ends` of the lines.
        apart: points between the markers of two series at the same x, so that their intervals do not overlap.
        format_y: formats the tick labels of y.
    """

    series: Sequence[Series]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()
    within: Interval | None = None
    names: Literal["inside", "above", "ends"] = "inside"
    apart: float = 0.0
    format_y: Callable[[float], str] | None = None


@dataclass(frozen=True)
class Dot:
    """A named value.

    Args:
        name: the name written beside the value.
        value: the value; NaN if there is none.
        interval: the ends of its interval; NaN for none.
        points: the values it is the mean of, drawn as rings.
        group: index of its colour and marker.
    """

    name: str
    value: float
    interval: Interval = NO_INTERVAL
    points: Sequence[float] = ()
    group: int = 0


@dataclass(frozen=True)
class Dots:
    """A panel with one row per value, from top to bottom.

    Args:
        rows: the values.
        title: title of the panel.
        x_label: label of the axis of values.
        log: whether that axis is logarithmic.
        within: the smallest and largest possible value; the axis reaches hardly beyond them.
        reference: a value to mark with a vertical line.
        groups: names of the groups for the legend.
        colours: colours of the groups.
        heading: text above the names of the rows.
    """

    rows: Sequence[Dot]
    title: str = ""
    x_label: str = ""
    log: bool = False
    within: Interval = (-inf, inf)
    reference: float | None = None
    groups: Sequence[str] = ()
    colours: Sequence[str] = COLOURS
    heading: str = ""


@dataclass(frozen=True, eq=False)
class Cells:
    """A panel of shaded cells, light for 0 and dark for the largest value.

    Args:
        values: `[rows, columns]`, not negative.
        title: title of the panel.
        x_label: label of the columns.
        y_label: label of the rows.
        rows: text beside each row; by default none.
        mark: row and column of a cell to mark with a ring, counted from 0.
        maximum: the value of the darkest colour; by default the largest value.
    """

    values: npt.NDArray[Any]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    rows: Sequence[str] = ()
    mark: tuple[int, int] | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Bubbles:
    """A panel with a bubble and a name for each point; if x spans a factor of ten, its axis is logarithmic.

    Args:
        series: the series to draw; if their bubbles have texts, the names are in a legend.
        title: title of the panel.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
    """

    series: Sequence[Series]
    title: str = ""
    x_label: str = ""
    y_label: str = ""


Panel = Lines | Dots | Cells | Bubbles
