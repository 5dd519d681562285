"""A line plot with sample points: a fitted curve over its data."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from attention_lab.viz.fonts import label_mask

Series = tuple[npt.ArrayLike, npt.ArrayLike]
"""x and y of equally many points."""
Array = npt.NDArray[np.float64]
Colour = tuple[int, int, int]

_FINE = 3  # drawn at three times the size, then averaged: smooth lines
_LINES: tuple[Colour, ...] = ((0, 94, 162), (0, 150, 110), (190, 60, 140), (70, 160, 215), (90, 70, 160))
_POINTS: tuple[Colour, ...] = ((128, 138, 150), (230, 110, 0), (160, 130, 0), (60, 60, 60))
_INK: Colour = (27, 34, 44)
_QUIET: Colour = (98, 106, 117)
_GRID: Colour = (229, 232, 236)
_HUGE = 1e300  # beyond it, differences overflow


class _Named:
    """A series and its looks."""

    def __init__(self, name: str, colours: Sequence[Colour], number: int, dots: bool, series: Series) -> None:
        self.name = name
        self.colour = colours[number % len(colours)]
        self.first = number == 0
        self.dots = dots
        self.values = _finite(name, *series)


def draw_curve(
    lines: Mapping[str, Series],
    *,
    points: Mapping[str, Series] | None = None,
    title: str = "",
    x_label: str = "x",
    y_label: str = "y",
    size: tuple[int, int] = (760, 460),
) -> Image.Image:
    """Plot named `lines`, through their points in the order given, and named scatter `points`.

    The first line is solid, the others are dashed; the first points are filled, the others rings. A
    line is broken where it is not finite.

    Raises:
        ValueError: the x and y of a series differ in number, or `size` is under 240 x 200.
    """
    if size[0] < 240 or size[1] < 200:
        raise ValueError(f"a plot is at least 240 x 200 pixels, not {size[0]} x {size[1]}")
    curves = [_Named(name, _LINES, number, False, xy) for number, (name, xy) in enumerate(lines.items())]
    dots = [
        _Named(name, _POINTS, number, True, xy) for number, (name, xy) in enumerate((points or {}).items())
    ]
    plot = _Plot(size, np.concatenate([np.empty((2, 0)), *(one.values for one in dots + curves)], axis=1))
    plot.heading(title, curves + dots)
    plot.axes(x_label, y_label)
    for one in dots + curves[::-1]:  # the first line over all others
        plot.series(one, *plot.place(one.values))
    return plot.image.reduce(_FINE)


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    rough = (high - low) / max(1, most - 1)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _finite(name: str, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
    """[2, points] of x and y, NaN where either cannot be drawn."""
    xs, ys = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    if len(xs) != len(ys):
        raise ValueError(f"{name}: {len(xs)} x but {len(ys)} y")
    both = np.stack([xs, ys])
    return np.where((np.abs(both) < _HUGE).all(axis=0), both, np.nan)


def _bounds(values: Array, margin: float) -> tuple[float, float]:
    """Of the axis: those of the values, a little wider; never empty."""
    usable = values[np.isfinite(values)]
    low, high = (float(usable.min()), float(usable.max())) if usable.size else (0.0, 1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        low, high = low - max(0.5, 0.1 * abs(low)), high + max(0.5, 0.1 * abs(high))
    return low - margin * (high - low), high + margin * (high - low)


class _Plot:
    """An enlarged picture; all measures given to it are in pixels of the final one."""

    def __init__(self, size: tuple[int, int], values: Array) -> None:
        self.width, self.height = size
        self.image = Image.new("RGB", (self.width * _FINE, self.height * _FINE), "white")
        self.draw = ImageDraw.Draw(self.image)
        self.x_bounds, self.y_bounds = _bounds(values[0], 0.02), _bounds(values[1], 0.06)
        self.x_ticks = round_ticks(*self.x_bounds, most=max(5, (self.width - 90) // 70))
        self.y_ticks = round_ticks(*self.y_bounds, most=max(5, (self.height - 120) // 45))
        self.tick_room = max((self.measure(tick_text(tick), 12, 80) for tick in self.y_ticks), default=0)
        self.left, self.right = 46.0 + self.tick_room, self.width - 18.0
        self.top, self.bottom = 16.0, self.height - 58.0

    def heading(self, title: str, entries: Sequence[_Named]) -> None:
        """Title and legend, above the plot."""
        if title:
            self.text(title, (self.left, 22.0), (0.0, 0.5), size=16, limit=int(self.right - self.left))
            self.top += 28
        x, y = self.left, self.top + 6
        for entry in entries:
            wide = 28 + self.measure(entry.name, 12, 200) + 22
            if x > self.left and x + wide > self.right:
                x, y = self.left, y + 20
            if y > self.bottom - 80:  # however many names there are, the plot keeps some room
                break
            sample = np.array([x + 11]) if entry.dots else np.array([x, x + 22])
            self.series(entry, sample, np.full(len(sample), y))
            self.text(entry.name, (x + 28, y), (0.0, 0.5), limit=200)
            x, self.top = x + wide, y + 18

    def axes(self, x_label: str, y_label: str) -> None:
        """Grid, round ticks and axis names."""
        across, _ = self.place(np.array([self.x_ticks, [0.0] * len(self.x_ticks)]))
        for tick, x in zip(self.x_ticks, across.tolist(), strict=True):
            self.stroke([(x, self.top), (x, self.bottom)], _GRID, 1.0)
            self.text(tick_text(tick), (x, self.bottom + 7), (0.5, 0.0), colour=_QUIET)
        _, up = self.place(np.array([[0.0] * len(self.y_ticks), self.y_ticks]))
        for tick, y in zip(self.y_ticks, up.tolist(), strict=True):
            self.stroke([(self.left, y), (self.right, y)], _GRID, 1.0)
            self.text(tick_text(tick), (self.left - 8, y), (1.0, 0.5), colour=_QUIET, limit=80)
        self.stroke([(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], _QUIET, 1.0)
        middle = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        self.text(x_label, (middle[0], self.height - 18.0), (0.5, 0.5), size=13)
        self.text(
            y_label, (20.0, middle[1]), (0.5, 0.5), size=13, turned=True, limit=int(self.bottom - self.top)
        )

    def place(self, values: Array) -> tuple[Array, Array]:
        """Pixels of points [2, points] on the axes."""
        (x_low, x_high), (y_low, y_high) = self.x_bounds, self.y_bounds
        x = self.left + (values[0] - x_low) / (x_high - x_low) * (self.right - self.left)
        y = self.bottom - (values[1] - y_low) / (y_high - y_low) * (self.bottom - self.top)
        return x, y

    def series(self, one: _Named, xs: Array, ys: Array) -> None:
        """Draw a series whose points are these pixels, NaN where there is none."""
        usable = np.flatnonzero(np.isfinite(xs))
        if one.dots:
            for x, y in zip(xs[usable], ys[usable], strict=True):
                self.dot(x, y, one.colour, filled=one.first)
            return
        runs = np.split(usable, np.flatnonzero(np.diff(usable) > 1) + 1)
        for run in (run for run in runs if len(run) > 1):
            pieces = [np.stack([xs[run], ys[run]])] if one.first else _dashes(xs[run], ys[run])
            for piece in pieces:
                self.stroke([(float(x), float(y)) for x, y in piece.T], one.colour, 2.5)

    def dot(self, x: float, y: float, colour: Colour, filled: bool) -> None:
        """A disc with a white rim, or a ring."""
        box = [(x - 3.5) * _FINE, (y - 3.5) * _FINE, (x + 3.5) * _FINE, (y + 3.5) * _FINE]
        if filled:
            self.draw.ellipse(box, fill=colour, outline="white", width=_FINE // 2)
        else:
            self.draw.ellipse(box, fill="white", outline=colour, width=_FINE + _FINE // 2)

    def stroke(self, points: list[tuple[float, float]], colour: Colour, width: float) -> None:
        """A polyline of `width` pixels."""
        fine = [(x * _FINE, y * _FINE) for x, y in points]
        self.draw.line(fine, fill=colour, width=round(width * _FINE), joint="curve")

    def measure(self, text: str, size: int, limit: int) -> int:
        """Width of a text."""
        return len(label_mask(text, size * _FINE, limit * _FINE)[0]) // _FINE

    def text(
        self,
        text: str,
        at: tuple[float, float],
        anchor: tuple[float, float],
        *,
        size: int = 12,
        colour: Colour = _INK,
        limit: int = 1200,
        turned: bool = False,
    ) -> None:
        """Write with the point `anchor` (fractions of the text's box) at (x, y)."""
        mask = label_mask(text, size * _FINE, limit * _FINE)
        mask = np.ascontiguousarray(np.rot90(mask)) if turned else mask
        height, width = mask.shape
        corner = round(at[0] * _FINE - anchor[0] * width), round(at[1] * _FINE - anchor[1] * height)
        self.image.paste(colour, corner, Image.fromarray(mask))


def _dashes(xs: Array, ys: Array, dash: float = 9.0) -> list[Array]:
    """Cut a line [points] into dashes [2, points] of `dash` pixels, as far apart as two thirds of one."""
    along = np.concatenate([[0.0], np.hypot(np.diff(xs), np.diff(ys)).cumsum()])
    pieces = []
    for start in np.arange(0, along[-1], dash * 5 / 3):
        end = min(start + dash, along[-1])
        first, last = np.searchsorted(along, [start, end], side="right")
        stops = np.concatenate([[start], along[first:last], [end]])
        pieces.append(np.stack([np.interp(stops, along, xs), np.interp(stops, along, ys)]))
    return pieces


def tick_text(tick: float) -> str:
    """What is written at a tick."""
    text = f"{tick:.10g}"
    return text if len(text) <= 8 else f"{tick:.3g}"
