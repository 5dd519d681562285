"""Place the maps of a figure: labels and titles are measured, so that none overlaps a neighbour."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE = 0.09  # inches of empty paper around everything
GAP = 0.2  # inches between the labels of one map and those of the next
PAD, BAR = 0.12, 0.11  # inches from a map to its colour bar, and the bar's width
HIGHEST = 4.5  # maximum height in inches of a bar beside several rows
_ROUNDS = 3  # titles may be wider than their maps, by an amount that depends on the size being sought

Size = tuple[float, float]
"""Width and height in inches."""


class Around(NamedTuple):
    """Inches that labels, title and colour bar take on each side of a map."""

    left: float
    right: float
    below: float
    above: float


def place(
    figure: "Figure",
    maps: "Sequence[Axes]",
    bars: "Sequence[Axes]",
    sizes: Sequence[Size],
    columns: int,
    figsize: Size | None,
) -> None:
    """Set the positions of maps and colour bars, and the size of the figure if it is not given.

    The tops of the maps in a row are aligned, and so are the left edges of those in a column.

    Args:
        figure: the figure.
        maps: the axes of the maps, row by row.
        bars: the axes of the colour bars: one for all maps, or one for each.
        sizes: the desired size of each map; if `figsize` is given, only their proportions count.
        columns: maps per row.
        figsize: the size of the figure; None for as large as needed.
    """
    for _ in range(_ROUNDS):
        plan = _measure(figure, maps, bars, sizes, columns)
        if figsize is None:
            figure.set_size_inches(plan.width + 2 * EDGE, plan.height + 2 * EDGE)
            continue
        room = figsize[0] - 2 * EDGE - plan.width, figsize[1] - 2 * EDGE - plan.height
        taken = sum(line.size for line in plan.across), sum(line.size for line in plan.down)
        fit = min(max(0.1, more + size) / size for more, size in zip(room, taken, strict=True))
        sizes = [(fit * width, fit * height) for width, height in sizes]
    _set_positions(figure, maps, bars, sizes, _measure(figure, maps, bars, sizes, columns))


class _Line(NamedTuple):
    """A column or a row: inches that its maps take, and that are needed before and after them."""

    before: float
    size: float
    after: float

    @property
    def all(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class _Plan:
    """The columns from the left, the rows from the top, and the inches that a shared colour bar takes."""

    across: Sequence[_Line]
    down: Sequence[_Line]
    beside: float

    @property
    def width(self) -> float:
        return sum(line.all + GAP for line in self.across) - GAP + self.beside

    @property
    def height(self) -> float:
        return sum(line.all + GAP for line in self.down) - GAP


def _measure(
    figure: "Figure", maps: "Sequence[Axes]", bars: "Sequence[Axes]", sizes: Sequence[Size], columns: int
) -> _Plan:
    """Measure what columns and rows need if the maps have these sizes."""
    own = len(bars) == len(maps)
    for number, (axes, (width, height)) in enumerate(zip(maps, sizes, strict=True)):
        _put(figure, axes, 0, 0, width, height)  # the position does not matter: labels move with their map
        if number < len(bars):
            _put(figure, bars[number], width + PAD, 0, BAR, height)
    around = [_around(axes, bars[n : n + 1] if own else ()) for n, axes in enumerate(maps)]
    places = [divmod(number, columns) for number in range(len(maps))]
    across = [
        _line(
            [(sizes[n][0], around[n].left, around[n].right) for n, (_, at) in enumerate(places) if at == one]
        )
        for one in range(min(columns, len(maps)))
    ]
    down = [
        _line(
            [(sizes[n][1], around[n].above, around[n].below) for n, (at, _) in enumerate(places) if at == one]
        )
        for one in range(ceil(len(maps) / columns))
    ]
    return _Plan(across, down, 0.0 if own else PAD + BAR + _around(bars[0]).right)


def _line(maps: Sequence[tuple[float, float, float]]) -> _Line:
    """A column or row of maps, each given by its size and the space before and after it."""
    size = max(size for size, _, _ in maps)
    before = max(before for _, before, _ in maps)
    return _Line(before, size, max(0.0, *(one + after - size for one, _, after in maps)))


def _around(axes: "Axes", others: "Sequence[Axes]" = ()) -> Around:
    """The space taken outside the box of an axes by its labels and by the other axes."""
    box, dots = axes.get_window_extent(), axes.figure.dpi
    drawn = [found for one in (axes, *others) if (found := one.get_tightbbox()) is not None]
    beyond = (
        box.x0 - min(one.x0 for one in drawn),
        max(one.x1 for one in drawn) - box.x1,
        box.y0 - min(one.y0 for one in drawn),
        max(one.y1 for one in drawn) - box.y1,
    )
    return Around(*(max(0.0, pixels / dots) for pixels in beyond))


def _set_positions(
    figure: "Figure", maps: "Sequence[Axes]", bars: "Sequence[Axes]", sizes: Sequence[Size], plan: _Plan
) -> None:
    """Set all positions; if the figure is larger than needed, centre everything in it."""
    wide, high = figure.get_size_inches()
    x = _starts(plan.across, max(EDGE, (wide - plan.width) / 2))
    y = _starts(plan.down, max(EDGE, (high - plan.height) / 2))
    for number, (axes, (width, height)) in enumerate(zip(maps, sizes, strict=True)):
        row, column = divmod(number, len(plan.across))
        bottom = high - y[row] - height
        _put(figure, axes, x[column], bottom, width, height)
        if len(bars) == len(maps):
            _put(figure, bars[number], x[column] + width + PAD, bottom, BAR, height)
    if len(bars) < len(maps):
        last = plan.across[-1]
        height = min(HIGHEST, y[-1] + plan.down[-1].size - y[0])
        _put(figure, bars[0], x[-1] + last.size + last.after + PAD, high - y[0] - height, BAR, height)


def _starts(lines: Sequence[_Line], first: float) -> list[float]:
    """The positions at which the maps of each column or row begin."""
    edges = accumulate((line.all + GAP for line in lines), initial=first)
    return [edge + line.before for edge, line in zip(edges, lines, strict=False)]


def _put(figure: "Figure", axes: "Axes", left: float, bottom: float, width: float, height: float) -> None:
    across, up = figure.get_size_inches()
    axes.set_position((left / across, bottom / up, width / across, height / up))
