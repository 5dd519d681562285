"""What is written beside the bubbles of a plot."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Bubble(NamedTuple):
    """What stands beside a bubble at (x, y), whose radius is in points."""

    text: str
    x: float
    y: float
    radius: float
    colour: str


def name_bubbles(axes: "Axes", bubbles: Sequence[Bubble]) -> None:
    """Names right of the bubbles, or where they cover no other one."""
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
        name = axes.annotate(
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


def show_legend(axes: "Axes", rows: Mapping[str, str]) -> None:
    """The names of the rows below the axes, each in its colour."""
    from matplotlib.lines import Line2D

    signs = [Line2D([], [], color=colour, linewidth=4) for colour in rows.values()]
    axes.figure.legend(
        signs, list(rows), loc="outside lower center", ncols=min(len(rows), 6), frameon=False, fontsize=9.5
    )
