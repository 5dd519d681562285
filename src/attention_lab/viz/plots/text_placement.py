"""The text of a plot: title and legend above it, names at the ends of lines and beside bubbles."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.viz.fonts import FONTS, label_mask, shorten

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_MARGIN = 9.0  # points left of the title
_NAME = 0.062  # height of a name at the end of a line, as a fraction of the axes
_LONGEST = 190  # maximum width of a name in points
_ROWS = 4  # maximum number of rows of a legend
_BOLD = 1.15  # how much wider bold letters are
_Numbers = npt.NDArray[np.float64]


class End(NamedTuple):
    """The end of a line in data coordinates, and its name."""

    x: float
    y: float
    name: str
    colour: str


class Bubble(NamedTuple):
    """A bubble at (x, y) and the text beside it; the radius is in points."""

    text: str
    x: float
    y: float
    radius: float
    colour: str


@cache
def families() -> list[str]:
    """The fonts in `FONTS` that are installed, by matplotlib's names; it brings the first, DejaVu Sans."""
    from matplotlib.font_manager import fontManager

    names = {Path(font.fname).name: font.name for font in fontManager.ttflist}
    return [names[file] for file in FONTS if file in names]


def fitted(text: str, size: float, limit: float = _LONGEST) -> str:
    """A text for matplotlib, cut off with an ellipsis at `limit` points; `$` does not start mathematics."""
    return shorten(text, round(4 * size), round(4 * limit)).replace("$", r"\$")


def write_heading(figure: "Figure", title: str, note: str, key: Mapping[str, "Artist"]) -> None:
    """Write title, note and legend at the top of the figure, and put the axes below them."""
    from matplotlib.transforms import offset_copy

    width, height = (72 * inches for inches in figure.get_size_inches())
    down = 6.0
    for text, size, weight in ((title, 14.0, "bold"), (note, 10.0, "normal")):
        if text:
            corner = offset_copy(figure.transFigure, figure, _MARGIN, -down, units="points")
            shown = fitted(text, size, (width - 2 * _MARGIN) / (_BOLD if weight == "bold" else 1))
            words = figure.text(0, 1, shown, transform=corner, fontsize=size, fontweight=weight, va="top")
            words.set_in_layout(False)
            words.set_alpha(1.0 if weight == "bold" else 0.68)
            down += 1.5 * size
    if key:
        widths = [label_mask(name, 10, _LONGEST).shape[1] + 46 for name in key]
        room = width - 2 * _MARGIN
        columns = _columns(widths, room)
        names = list(key)[: columns * _ROWS]
        figure.legend(
            [key[name] for name in names],
            [fitted(name, 9.5) for name in names],
            loc="upper left",
            bbox_to_anchor=(_MARGIN / width, 1 - down / height),
            ncols=columns,
            borderaxespad=0.0,
            borderpad=0.2,
        ).set_in_layout(False)
        down += 8 + 14.5 * -(-len(names) // columns)
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - down / height))  # type: ignore[union-attr, call-arg]


def _columns(widths: Sequence[int], room: float) -> int:
    """How many columns of a legend fit; each is filled before the next, and as wide as its longest name."""
    for columns in range(len(widths), 1, -1):
        if sum(max(column) for column in np.array_split(widths, columns)) <= room:
            return columns
    return 1


def name_ends(axes: "Axes", ends: Sequence[End], away: float) -> "list[tuple[End, Annotation]]":
    """Write names at the right, each at the height of its line's end, without overlaps."""
    axes.autoscale_view()
    share = axes.transScale + axes.transLimits
    ordered = sorted((float(share.transform((end.x, end.y))[1]), end) for end in ends)
    named = []
    for height, (_, end) in zip(spread_out([one for one, _ in ordered], _NAME), ordered, strict=True):
        name = axes.annotate(
            fitted(end.name, 10.5),
            (1.0, height),
            (away, 0.0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            color=end.colour,
            fontsize=10.5,
            fontweight="bold",
            annotation_clip=False,
        )
        named.append((end, name))
    return named


def move_to_ends(axes: "Axes", named: "Sequence[tuple[End, Annotation]]") -> None:
    """Move the names of lines that end before the right edge to these ends, if there is room for them.

    If there is none, draw a thin line from the end to the name. The figure must already be laid out.
    """
    from matplotlib.transforms import Bbox

    paper = axes.get_window_extent()
    point = axes.figure.dpi / 72
    places = [axes.transData.transform((end.x, end.y)) for end, _ in named]
    early = [place[0] < paper.x1 - 0.06 * paper.width for place in places]
    taken = [Bbox([at - 2 * point, at + 2 * point]) for at in _traced(axes)]
    taken += [name.get_window_extent() for (_, name), moves in zip(named, early, strict=True) if not moves]
    for (end, name), place, moves in zip(named, places, early, strict=True):
        if not moves:
            continue
        wanted = _Wanted(place, name.get_window_extent(), (8.0, 12.0))
        found = _nearest_place(wanted, _extents(taken), paper, point)
        if found.covered < 1e-6:
            taken.append(found.box.padded(2.5 * point, 0.5 * point))
            axes.annotate(
                name.get_text(),
                (end.x, end.y),
                (found.across, found.up),
                textcoords="offset points",
                color=end.colour,
                fontsize=10.5,
                fontweight="bold",
                ha=found.ha,
                va=found.va,
            )
            name.remove()
            continue
        box = name.get_window_extent()
        low = axes.transData.inverted().transform((paper.x1, (box.y0 + box.y1) / 2))
        xs, ys = (end.x, float(low[0])), (end.y, float(low[1]))
        axes.plot(xs, ys, color=end.colour, linewidth=0.7, alpha=0.55, zorder=1.2)


def _traced(axes: "Axes") -> list[_Numbers]:
    """Closely spaced points along all lines of the axes, in pixels."""
    found: list[_Numbers] = []
    for line in axes.lines:
        corners = line.get_transform().transform(line.get_xydata())
        corners = corners[np.isfinite(corners).all(1)]
        drawn = line.get_linestyle() not in ("None", "none", "")
        for one, other in pairwise(corners) if drawn else ():
            count = max(2, int(np.abs(other - one).max() // 6))
            found += list(np.linspace(one, other, min(count, 400)))
        found += list(corners)
    return found


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Move ascending heights as little as possible, so that neighbours are at least `gap` apart.

    Heights that touch form a block around their mean (pool adjacent violators, least squares).
    """
    blocks: list[tuple[float, int]] = []  # sum of the heights minus their offsets in line, and their number
    for place, height in enumerate(heights):
        blocks.append((height - place * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (total, count), (before, number) = blocks.pop(), blocks.pop()
            blocks.append((before + total, number + count))
    starts = [total / count for total, count in blocks for _ in range(count)]
    return [start + place * gap for place, start in enumerate(starts)]


def name_bubbles(axes: "Axes", bubbles: Sequence[Bubble]) -> None:
    """Write names beside the bubbles where they cover nothing; the figure must already be laid out."""
    from matplotlib.transforms import Bbox

    point = axes.figure.dpi / 72
    centres = [axes.transData.transform((one.x, one.y)) for one in bubbles]
    radii = [one.radius * point for one in bubbles]
    taken = [Bbox([at - radius, at + radius]) for at, radius in zip(centres, radii, strict=True)]
    taken += [Bbox([at - point, at + point]) for at in _traced(axes)]
    names: list[Annotation] = [
        axes.annotate(
            one.text,
            (one.x, one.y),
            (0.0, 0.0),
            textcoords="offset points",
            color=one.colour,
            fontsize=9.5,
            # Not a white outline: with that, a vector file would contain shapes instead of letters.
            bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
        )
        for one in bubbles
    ]
    wanted = [
        _Wanted(centre, name.get_window_extent(), [one.radius + away for away in (5, 12, 22, 34)])
        for centre, name, one in zip(centres, names, bubbles, strict=True)
    ]
    places = _arranged(wanted, _extents(taken), axes.get_window_extent(), point)
    for name, place in zip(names, places, strict=True):
        name.set(position=(place.across, place.up), ha=place.ha, va=place.va)


class _Wanted(NamedTuple):
    """A text to place beside a point: position and size in pixels, and possible distances in points."""

    at: _Numbers
    size: "Bbox"
    distances: Sequence[float]


class _Place(NamedTuple):
    """A place for a text: offset from its mark in points, alignment, box in pixels, and area covered."""

    across: float
    up: float
    ha: str
    va: str
    box: "Bbox"
    covered: float


_SHIFTS = {"left": 0.0, "center": -0.5, "right": -1.0, "bottom": 0.0, "top": -1.0}


def _arranged(wanted: Sequence[_Wanted], taken: _Numbers, paper: "Bbox", point: float) -> list[_Place]:
    """Place texts greedily in several orders, and return the result that covers least, then is nearest."""
    numbers = range(len(wanted))
    across = sorted(numbers, key=lambda number: float(wanted[number].at[0]))
    tried = []
    for order in (numbers, numbers[::-1], across, across[::-1]):
        boxes = np.concatenate([taken, np.empty((len(wanted), 4))])
        places: dict[int, _Place] = {}
        for count, number in enumerate(order, start=len(taken)):
            places[number] = _nearest_place(wanted[number], boxes[:count], paper, point)
            boxes[count] = places[number].box.padded(2.5 * point, 0.5 * point).extents
        away = sum(abs(one.across) + abs(one.up) for one in places.values())
        tried.append((sum(one.covered for one in places.values()), away, [places[n] for n in numbers]))
    return min(tried, key=lambda one: one[:2])[2]


def _nearest_place(wanted: _Wanted, taken: _Numbers, paper: "Bbox", point: float) -> _Place:
    """The nearest place where a text covers nothing of `taken` [N, 4], else the one where it covers least."""
    from matplotlib.transforms import Bbox

    size, best = wanted.size, None
    for across, up, ha, va in (place for away in wanted.distances for place in _around(away)):
        left = wanted.at[0] + across * point + _SHIFTS[ha] * size.width
        low = wanted.at[1] + up * point + _SHIFTS[va] * size.height
        box = Bbox.from_bounds(left, low, size.width, size.height)
        outside = size.width * size.height - _common(box, _extents([paper]))
        place = _Place(across, up, ha, va, box, outside + _common(box, taken))
        if place.covered < 1e-6:
            return place
        best = place if best is None or place.covered < best.covered - 1e-6 else best
    assert best is not None
    return best


def _around(away: float) -> list[tuple[float, float, str, str]]:
    """Offsets in points from a mark to a text beside it, with the text's alignment; the best first."""
    near = 0.75 * away
    return [
        *((away, 0.0, "left", "center"), (-away, 0.0, "right", "center")),
        *((0.0, away, "center", "bottom"), (0.0, -away, "center", "top")),
        *((near, near, "left", "bottom"), (near, -near, "left", "top")),
        *((-near, near, "right", "bottom"), (-near, -near, "right", "top")),
    ]


def _extents(boxes: "Sequence[Bbox]") -> _Numbers:
    """The left, lower, right and upper ends of boxes, [N, 4]."""
    return np.array([box.extents for box in boxes], np.float64).reshape(-1, 4)


def _common(box: "Bbox", others: _Numbers) -> float:
    """The area that a box shares with others [N, 4], in total."""
    sides = np.minimum(box.max, others[:, 2:]) - np.maximum(box.min, others[:, :2])
    return float(sides.clip(min=0).prod(1).sum())
