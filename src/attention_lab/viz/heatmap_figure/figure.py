"""Heatmaps as a matplotlib figure, for notebooks and papers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from attention_lab.viz.canvas import BAD, PALETTE, SHADES
from attention_lab.viz.heatmap_figure.matrices import Labels, Matrix, as_captions, as_labels, as_panels
from attention_lab.viz.heatmap_figure.placement import Size, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Scale = Literal["linear", "sqrt"]
LABEL_POINTS, TITLE_POINTS = 9, 10
LINE = 1.45 * LABEL_POINTS / 72  # minimum inches from one label to the next
SMALLEST, LARGEST = 1.7, 5.2  # inches of a panel's longer side
SLIMMEST = 0.9  # minimum inches of each side of a very long or wide panel
DOTS = 110  # per inch
GREY = "#5b6470"


def show_heatmaps(
    matrices: Any,
    xlabel: str = "key",
    ylabel: str = "query",
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: "str | Colormap | None" = None,
    *,
    queries: Labels | None = None,
    keys: Labels | None = None,
    columns: int | None = None,
    scale: Scale = "linear",
    shared: bool = True,
) -> "Figure":
    """Draw rows and columns of matrices with a colour bar; a notebook shows the result of a cell's last line.

    Colours go from 0 (or the smallest value, if it is negative) to the largest value. NaN and infinite cells
    are magenta. If there are too many labels, only some are shown. pyplot is not used.

    For example:

        show_heatmaps(weights, "Keys", "Queries", titles=["Head 1", "Head 2"], figsize=(5, 2.5), cmap="Reds")

    Args:
        matrices: an array `[rows, columns, Q, K]`, `[N, Q, K]` or `[Q, K]`, a list of matrices, which may
            have different sizes, or a list of rows of matrices. NumPy arrays, anything that NumPy can convert
            to an array, or PyTorch tensors of any type, on any device, with or without gradient.
        xlabel: name of the K axis.
        ylabel: name of the Q axis.
        titles: one title per matrix, or one per column.
        figsize: width and height in inches; by default as large as the matrices need.
        cmap: a matplotlib colour map or its name; by default that of the other pictures, where light is 0.
        queries: a label for each row of a matrix, or one such list per matrix.
        keys: a label for each column of a matrix, or one such list per matrix.
        columns: panels per row; by default as in the array or the rows, else about as many as rows.
        scale: "sqrt" makes small values easier to tell apart.
        shared: whether all matrices share one colour scale and one bar, so that they can be compared.

    Returns:
        The figure: `figure.savefig("heads.pdf")` writes it to a file, and `figure.axes` gives its parts.

    Raises:
        ValueError: there are no matrices, or the number of titles or labels does not fit.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plan = _plan(matrices, titles, queries, keys, columns)
    figure = Figure(figsize, dpi=DOTS)
    FigureCanvasAgg(figure)
    grid = figure.subplots(plan.rows, plan.columns, squeeze=False).ravel()
    for axes in grid[len(plan.panels) :]:
        axes.set_axis_off()
    maps, bars = grid[: len(plan.panels)].tolist(), []
    norms, colours = _norms(plan.panels, scale, shared), _colours(cmap)
    for number, (axes, panel, norm) in enumerate(zip(maps, plan.panels, norms, strict=True)):
        image = _draw(axes, panel, norm, colours)
        axes.set_title(plan.captions[number], fontsize=TITLE_POINTS, parse_math=False, usetex=False, pad=7)
        left = number % plan.columns == 0
        lowest = number + plan.columns >= len(plan.panels) or not plan.alike
        _name(axes, "y", ylabel if left else "", plan.queries[number], left or not plan.alike)
        _name(axes, "x", xlabel if lowest else "", plan.keys[number], lowest)
        if number == 0 or not shared:
            bars.append(_bar(figure, image))
    place(figure, maps, bars, _sizes(plan.panels), plan.columns, figsize)
    # Notebooks display objects with this method; matplotlib's own hook needs pyplot.
    figure.__dict__["_repr_png_"] = partial(_png, figure)
    return figure


@dataclass(frozen=True, eq=False)
class _Plan:
    """The matrices, row by row, with their captions and labels."""

    panels: Sequence[Matrix]
    columns: int
    captions: Sequence[str]
    queries: Sequence[Sequence[str]]
    keys: Sequence[Sequence[str]]

    @property
    def rows(self) -> int:
        """The number of rows needed for all panels."""
        return ceil(len(self.panels) / self.columns)

    @cached_property
    def alike(self) -> bool:
        """Whether all have the same size and labels, which are then written only once."""
        sides = self.queries, self.keys
        return len({panel.shape for panel in self.panels}) == 1 and all(
            side.count(side[0]) == len(side) for side in sides
        )


def _plan(
    matrices: Any,
    titles: Sequence[str] | None,
    queries: Labels | None,
    keys: Labels | None,
    columns: int | None,
) -> _Plan:
    panels, across = as_panels(matrices)
    columns = min(len(panels), columns or across or ceil(len(panels) ** 0.5))
    if columns < 1:
        raise ValueError(f"columns={columns}: give 1 or more")
    captions = as_captions(titles, len(panels), columns)
    sides = (as_labels(labels, panels, axis) for axis, labels in enumerate((queries, keys)))
    return _Plan(panels, columns, captions, *sides)


def _png(figure: "Figure") -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _sizes(panels: Sequence[Matrix]) -> list[Size]:
    """The size of each map in inches, with square cells of one size, about as large as a line of text."""
    longest = max(max(panel.shape) for panel in panels)
    cell = min(max(LINE * 1.35, SMALLEST / longest), LARGEST / longest)
    least = [0.0 if _even(panel) else SLIMMEST for panel in panels]
    return [
        (max(slim, panel.shape[1] * cell), max(slim, panel.shape[0] * cell))
        for panel, slim in zip(panels, least, strict=True)
    ]


def _even(panel: Matrix) -> bool:
    """Whether a panel with square cells is wide and high enough."""
    rows, columns = panel.shape
    return bool(6 * rows >= columns and 6 * columns >= rows)


def _norms(panels: Sequence[Matrix], scale: Scale, shared: bool) -> "list[Normalize]":
    """The colour scale of each panel."""
    from matplotlib.colors import Normalize, PowerNorm

    def norm(values: Iterator[Matrix]) -> Normalize:
        finite = np.concatenate([[0.0], *(one[np.isfinite(one)] for one in values)])
        low, high = finite.min(), finite.max()
        high = high if high > low else low + 1.0
        return PowerNorm(0.5, low, high) if scale == "sqrt" else Normalize(low, high)

    return [norm(iter(panels))] * len(panels) if shared else [norm(iter([panel])) for panel in panels]


def _colours(cmap: "str | Colormap | None") -> "Colormap":
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    if cmap is None:
        chosen: Colormap = ListedColormap(PALETTE[:SHADES] / 255, name="attention")
    else:
        chosen = colormaps[cmap] if isinstance(cmap, str) else cmap
    return chosen.with_extremes(bad=tuple(PALETTE[BAD] / 255))


def _draw(axes: "Axes", panel: Matrix, norm: "Normalize", cmap: "Colormap") -> "AxesImage":
    queries, keys = panel.shape
    shown = np.ma.masked_invalid(panel)
    image = axes.imshow(shown, cmap, norm, aspect="auto", interpolation="nearest")
    for spine in axes.spines.values():
        spine.set(color="#c9ced6", linewidth=0.8)
    axes.tick_params(length=0, labelsize=LABEL_POINTS, labelcolor="#1b222c", pad=3)
    if max(queries, keys) <= 40:
        axes.set_xticks(np.arange(keys - 1) + 0.5, minor=True)
        axes.set_yticks(np.arange(queries - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=0.6)
        axes.tick_params(which="minor", length=0)
    return image


def _name(axes: "Axes", side: str, name: str, labels: Sequence[str], shown: bool) -> None:
    """Name one axis and label its ticks, as many as are legible."""
    from matplotlib.ticker import MaxNLocator

    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_label_text(name, fontsize=LABEL_POINTS, color=GREY)
    if not labels:
        axis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    else:
        step = ceil(len(labels) * LINE / LARGEST)
        turned = side == "x" and max(map(len, labels)) > 2
        axis.set_ticks(range(0, len(labels), step), labels[::step])
        for label in axis.get_ticklabels():
            label.set(parse_math=False, usetex=False, rotation=90 if turned else 0)
    axis.set_tick_params(labelleft=shown, labelbottom=shown)


def _bar(figure: "Figure", image: "AxesImage") -> "Axes":
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import FixedLocator, Locator, MaxNLocator

    norm, ticks = image.norm, cast("Locator", MaxNLocator(5))
    if isinstance(norm, PowerNorm):  # evenly spaced values would crowd at the top
        ticks = FixedLocator(norm.inverse(np.linspace(0, 1, 5)).tolist())
    bar = figure.colorbar(image, cax=figure.add_axes((0, 0, 0.1, 1)), ticks=ticks, format="%.2g")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=LABEL_POINTS - 1, color=GREY, labelcolor=GREY)
    return bar.ax
