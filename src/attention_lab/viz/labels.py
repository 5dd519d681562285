"""The words of a plot: title and legend above it, names at the ends of lines and beside bubbles."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attention_lab.viz.fonts import FONTS, label_mask, shorten

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

_MARGIN = 9.0  # points left of the title
_NAME = 0.062  # height of a name at the end of a line, as a share of the axes
_LONGEST = 190  # points of a name
_ROWS = 4  # of a legend
_BOLD = 1.15  # how much wider bold letters are


class End(NamedTuple):
    """The end of a line in the units of the axes, and its name."""

    x: float
    y: float
    name: str
    colour: str


class Bubble(NamedTuple):
    """What stands beside a bubble at (x, y), whose radius is in points."""

    text: str
    x: float
    y: float
    radius: float
    colour: str


@cache
def families() -> list[str]:
    """The installed ones of `FONTS`, by matplotlib's names; the first, DejaVu Sans, is its own."""
    from matplotlib.font_manager import fontManager

    names = {Path(font.fname).name: font.name for font in fontManager.ttflist}
    return [names[file] for file in FONTS if file in names]


def fitted(text: str, size: float, limit: float = _LONGEST) -> str:
    """A text for matplotlib, ended by an ellipsis where it is wider than `limit` points; no mathematics."""
    return shorten(text, round(4 * size), round(4 * limit)).replace("$", r"\$")


def write_heading(figure: "Figure", title: str, note: str, key: Mapping[str, "Artist"]) -> None:
    """Title, note and legend at the top of the figure, and the axes below them."""
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
        columns = len(key) if sum(widths) <= room else max(1, int(room // max(widths)))
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


def name_ends(axes: "Axes", ends: Sequence[End], away: float) -> None:
    """Names at the right, each at the height of the end of its line and apart from one another."""
    axes.autoscale_view()
    share = axes.transScale + axes.transLimits
    ordered = sorted((float(share.transform((end.x, end.y))[1]), end) for end in ends)
    for height, (_, end) in zip(spread_out([one for one, _ in ordered], _NAME), ordered, strict=True):
        axes.annotate(
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


def name_bubbles(axes: "Axes", bubbles: Sequence[Bubble]) -> None:
    """Names right of the bubbles, or where they cover no other one; the figure must have been laid out."""
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    point = axes.figure.dpi / 72
    centres = [axes.transData.transform((one.x, one.y)) for one in bubbles]
    taken = [
        Bbox([centre - one.radius * point, centre + one.radius * point])
        for centre, one in zip(centres, bubbles, strict=True)
    ]
    paper = axes.get_window_extent()
    for one in bubbles:
        away = one.radius + 5
        name: Annotation = axes.annotate(
            one.text,
            (one.x, one.y),
            (away, 0.0),
            textcoords="offset points",
            ha="left",
            va="center",
            color=one.colour,
            fontsize=9.5,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
        places = [(away, 0.0, "left", "center"), (-away, 0.0, "right", "center")]
        places += [(0.0, away, "center", "bottom"), (0.0, -away, "center", "top")]
        for across, up, ha, va in [*places, places[0]]:  # where none is free, the first
            name.set(position=(across, up), ha=ha, va=va)
            box = name.get_window_extent()
            inside = paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 <= box.y0 and box.y1 <= paper.y1
            if inside and not any(box.overlaps(other) for other in taken):
                break
        taken.append(name.get_window_extent())
