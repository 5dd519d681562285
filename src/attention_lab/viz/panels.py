"""What plots are made of: their style, and panels of lines, dots in rows, bubbles or shaded cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import numpy.typing as npt

# Okabe & Ito (2008), dark enough on white: apart for colour-blind eyes too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56719C", "#A6761D", "#666666")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, QUIET, GRID = "#1B222C", "#626A75", "#E5E8EC"
STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
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
"""Of all plots, over matplotlib's defaults."""
_ANY = "#7F868F"  # as far in contrast from white as from dark grey
THEMED_STYLE: dict[str, Any] = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "legend.labelcolor"), _ANY),
    **dict.fromkeys(("text.color", "xtick.color", "ytick.color"), _ANY),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    "grid.alpha": 0.3,
    "grid.color": _ANY,
}
"""Over `STYLE`: transparent, for pages that may be light or dark."""

Interval = tuple[float, float]
NO_INTERVAL: Interval = (nan, nan)


@dataclass(frozen=True)
class Series:
    """A named row of points.

    Args:
        name: what stands in the legend or beside it; nothing for no entry.
        x: numbers, or anything else as categories.
        y: as many numbers; one that is not finite breaks the line.
        intervals: the lower and upper end of the interval of each y; NaN: none.
        x_intervals: likewise of x.
        style: a `line` with markers, a `plain` line, `dashed` as for theory, `dots` alone, grey `samples`,
            `gold` ones (held out), `truth` (a dotted line), or a `band` between the ends of the intervals.
        colour: number of the colour; by default the place among the series of the panel.
        areas: what the area of each bubble is in proportion to.
        texts: what stands beside each bubble in place of the name; the bubbles are then joined by a line.

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
        series: what is drawn.
        title: of the panel.
        x_label: of the horizontal axis.
        y_label: of the vertical axis.
        log_x: whether x is on a logarithmic axis.
        log_y: whether y is.
        ticks: where x is marked; by default matplotlib's own choice.
        within: the least and the largest y there can be: the range of the axis, which no interval leaves.
        names: where they stand: in a legend `inside` or `above`, or at the `ends` of the lines.
        apart: points between the markers of two series at one x, so that their intervals are apart too.
        written: how y is written at its ticks.
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
    written: Callable[[float], str] | None = None


@dataclass(frozen=True)
class Dot:
    """A named value.

    Args:
        name: what is written beside it.
        value: NaN where there is none.
        interval: its ends; NaN: none.
        points: what it is the mean of, drawn as rings.
        group: number of its colour and marker.
    """

    name: str
    value: float
    interval: Interval = NO_INTERVAL
    points: Sequence[float] = ()
    group: int = 0


@dataclass(frozen=True)
class Dots:
    """A panel with a row for each value, from top to bottom.

    Args:
        rows: the values.
        title: of the panel.
        x_label: of the values.
        log: whether the values are on a logarithmic axis.
        reference: a value that a vertical line marks.
        groups: names of the groups for the legend.
        colours: of the groups.
    """

    rows: Sequence[Dot]
    title: str = ""
    x_label: str = ""
    log: bool = False
    reference: float | None = None
    groups: Sequence[str] = ()
    colours: Sequence[str] = COLOURS


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


@dataclass(frozen=True)
class Bubbles:
    """A panel with a bubble for each point, its name beside it; x over a factor of ten is logarithmic.

    Args:
        series: what is drawn; names stand in a legend where the bubbles have texts of their own.
        title: of the panel.
        x_label: of the horizontal axis.
        y_label: of the vertical axis.
    """

    series: Sequence[Series]
    title: str = ""
    x_label: str = ""
    y_label: str = ""


Panel = Lines | Dots | Cells | Bubbles
