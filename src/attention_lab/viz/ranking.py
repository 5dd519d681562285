"""Settings one below the other: the mean of each, its interval, and the points it is the mean of."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from attention_lab.viz.curve import round_ticks, tick_text
from attention_lab.viz.fonts import label_mask

Colour = tuple[int, int, int]

_FINE = 3  # drawn at three times the size, then averaged: smooth shapes
_WIDTH, _ROW, _MARGIN = 860, 26, 18
_NAMES = 330  # most pixels of a name
_MOST = 40  # rows of a panel, and panels: more would be no picture
_INK: Colour = (27, 34, 44)
_QUIET: Colour = (98, 106, 117)
_GRID: Colour = (229, 232, 236)
COLOURS: dict[str, Colour] = {
    "best": (0, 94, 162),
    "tied": (86, 156, 214),
    "worse": (150, 156, 164),
    "open": (200, 130, 0),
}
"""Of each verdict."""
LEGEND = {
    "best": "best",
    "tied": "not distinguishable from it at 95%",
    "worse": "worse",
    "open": "not compared",
}


class Bar(NamedTuple):
    """A setting.

    Attributes:
        name: what is written beside it.
        mean: NaN where there is none.
        interval: of the mean, its ends; NaN: none.
        points: the values.
        verdict: a key of `COLOURS`.
    """

    name: str
    mean: float
    interval: tuple[float, float]
    points: Sequence[float]
    verdict: str


class Panel(NamedTuple):
    """Settings on one axis, under a title of their own."""

    title: str
    axis: str
    bars: Sequence[Bar]


def draw_ranking(title: str, panels: Sequence[Panel]) -> Image.Image:
    """The panels below one another, names at the left; what does not fit is counted in a line."""
    shown = [Panel(one.title, one.axis, one.bars[:_MOST]) for one in panels[:_MOST]]
    left_out = sum(len(one.bars) for one in panels) - sum(len(one.bars) for one in shown)
    names = [_measure(bar.name, 13, _NAMES) for panel in shown for bar in panel.bars]
    left = _MARGIN + max(names, default=0) + 12
    height = 66 + sum(_height(panel) for panel in shown) + (22 if left_out else 0)
    paper = _Paper(_WIDTH, height)
    paper.text(title, (_MARGIN, 24), size=17, limit=_WIDTH - 2 * _MARGIN)
    verdicts = {bar.verdict for panel in shown for bar in panel.bars}
    x = float(_MARGIN)
    for verdict, text in LEGEND.items():
        if verdict in verdicts:
            paper.dot(x + 5, 48, COLOURS[verdict], 5)
            x += 16 + paper.text(text, (x + 16, 48), size=12, colour=_QUIET) + 18
    paper.text("mean and 95% interval; rings: seeds", (x, 48), size=12, colour=_QUIET)
    top = 66.0
    for panel in shown:
        _draw_panel(paper, panel, left, top)
        top += _height(panel)
    if left_out:
        paper.text(f"and {left_out} more settings", (_MARGIN, top + 8), size=12, colour=_QUIET)
    return paper.image.reduce(_FINE)


def _height(panel: Panel) -> int:
    return (24 if panel.title else 0) + _ROW * len(panel.bars) + 56


def _draw_panel(paper: "_Paper", panel: Panel, left: float, top: float) -> None:
    if panel.title:
        paper.text(panel.title, (_MARGIN, top + 12), size=14, limit=_WIDTH - 2 * _MARGIN)
        top += 24
    right, bottom = _WIDTH - _MARGIN - 8.0, top + _ROW * len(panel.bars) + 4
    low, high = _bounds(panel.bars)

    def across(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

    for tick in round_ticks(low, high, most=7):
        x = across(tick)
        paper.line([(x, top), (x, bottom)], _GRID, 1)
        paper.text(tick_text(tick), (x, bottom + 12), anchor=0.5, size=11, colour=_QUIET)
    paper.line([(left, bottom), (right, bottom)], _QUIET, 1)
    paper.text(panel.axis, ((left + right) / 2, bottom + 32), anchor=0.5, size=12, limit=int(right - left))
    for number, bar in enumerate(panel.bars):
        y = top + _ROW * (number + 0.5)
        paper.text(bar.name, (left - 12, y), anchor=1.0, size=13, limit=_NAMES)
        _draw_bar(paper, bar, y, across, (low, high))


def _draw_bar(
    paper: "_Paper", bar: Bar, y: float, across: Callable[[float], float], bounds: tuple[float, float]
) -> None:
    colour, (low, high) = COLOURS[bar.verdict], bounds
    start, end = bar.interval
    if isfinite(start) and isfinite(end):
        paper.line([(across(start), y), (across(end), y)], colour, 2.5)
        if start < low:
            paper.tip(across(low), y, -1, colour)
        if end > high:
            paper.tip(across(high), y, 1, colour)
    for point in filter(isfinite, bar.points):
        paper.dot(across(point), y, colour, 3.5, ring=True)
    if isfinite(bar.mean):
        paper.dot(across(bar.mean), y, colour, 5)


def _bounds(bars: Sequence[Bar]) -> tuple[float, float]:
    """Of the axis: all points and means, and of the intervals what lies within twice their spread.

    An interval of two seeds is twelve times their distance wide: it would press all else into a corner.
    """
    values = [value for bar in bars for value in (bar.mean, *bar.points) if isfinite(value)]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    spread = (high - low) or abs(high) or 1.0
    ends = [end for bar in bars for end in bar.interval if isfinite(end)]
    low = min([low, *(max(end, low - spread / 2) for end in ends)])
    high = max([high, *(min(end, high + spread / 2) for end in ends)])
    space = 0.04 * ((high - low) or spread)
    return low - space, high + space


class _Paper:
    """An enlarged picture; all measures given to it are in pixels of the final one."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width * _FINE, height * _FINE), "white")
        self.draw = ImageDraw.Draw(self.image)

    def line(self, points: Sequence[tuple[float, float]], colour: Colour, width: float) -> None:
        self.draw.line([(x * _FINE, y * _FINE) for x, y in points], fill=colour, width=round(width * _FINE))

    def dot(self, x: float, y: float, colour: Colour, radius: float, ring: bool = False) -> None:
        box = [(x - radius) * _FINE, (y - radius) * _FINE, (x + radius) * _FINE, (y + radius) * _FINE]
        fill = "white" if ring else colour
        self.draw.ellipse(box, fill=fill, outline=colour if ring else "white", width=_FINE)

    def tip(self, x: float, y: float, side: int, colour: Colour) -> None:
        """An arrow's, to the right (1) or left (-1): the interval goes on beyond the axis."""
        corners = [(x + 7 * side, y), (x - side, y - 5), (x - side, y + 5)]
        self.draw.polygon([(x * _FINE, y * _FINE) for x, y in corners], fill=colour)

    def text(
        self,
        text: str,
        at: tuple[float, float],
        *,
        anchor: float = 0.0,
        size: int = 12,
        colour: Colour = _INK,
        limit: int = 1200,
    ) -> int:
        """Write with the fraction `anchor` of the width at x, its middle at y; returns the width."""
        mask = label_mask(text, size * _FINE, limit * _FINE)
        height, width = (int(side) for side in mask.shape)
        corner = round(at[0] * _FINE - anchor * width), round(at[1] * _FINE - height / 2)
        self.image.paste(colour, corner, Image.fromarray(np.ascontiguousarray(mask)))
        return width // _FINE


def _measure(text: str, size: int, limit: int) -> int:
    return len(label_mask(text, size * _FINE, limit * _FINE)[0]) // _FINE
