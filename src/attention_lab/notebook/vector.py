"""Attention maps as SVG: text stays text, and cells are vectors unless there are too many."""

from base64 import b64encode
from collections.abc import Sequence
from math import ceil, sqrt
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image

from attention_lab.viz import Heatmap, rounded_top, to_png
from attention_lab.viz.canvas import GOLD, INK, PALETTE, SHADES
from attention_lab.viz.cells import cell_pixels, shades

CELLS = 40_000
"""A map with at most this many cells is drawn as vectors; a larger one is an embedded picture."""
_SIDE = 420  # pixels of a map at most
_TEXT, _GAP, _LABEL, _TITLE = 11, 30, 7, 26  # size of text, pixels between maps, of a letter, above a map
_LONGEST = 24  # most letters of a label
_LEGEND = 74


def to_svg(maps: Sequence[Heatmap], title: str = "") -> str:
    """The maps side by side, with labels and one colour bar.

    Args:
        maps: one or more maps.
        title: the title above all maps.
    """
    top = rounded_top(one.weights[one.attended] for one in maps)
    columns = ceil(sqrt(len(maps)))
    panels = [_Panel(one) for one in maps]
    across = max(panel.width for panel in panels) + _GAP
    down = max(panel.height for panel in panels) + _GAP
    head = _TITLE + 14 if title else 14
    width, height = 14 + columns * across + _LEGEND, head + ceil(len(panels) / columns) * down
    parts = [_text(title, 14, 22, size=15, weight=600)] if title else []
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        parts.append(panel.draw(14 + column * across, head + row * down, top))
    parts.append(_bar(14 + columns * across, head + _TITLE, top))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Inter, Helvetica, Arial, DejaVu Sans, sans-serif">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{"".join(parts)}</svg>\n'
    )


class _Panel:
    """One map and its layout."""

    def __init__(self, heatmap: Heatmap) -> None:
        self.heatmap = heatmap
        rows, columns = heatmap.weights.shape
        self.cell = max(1.0, min(34.0, _SIDE / max(rows, columns)))
        self.step = ceil((_TEXT + 2) / self.cell)
        self.queries = [_short(label) for label in heatmap.queries]
        self.keys = [_short(label) for label in heatmap.keys]
        self.left = 10 + _LABEL * max(map(len, self.queries), default=0)
        longest = max(map(len, self.keys), default=0)
        self.turned = longest * _LABEL > self.cell * self.step - 4
        self.below = 14 + (longest * _LABEL if self.turned else _TEXT)
        self.width = round(self.left + columns * self.cell)
        self.height = round(_TITLE + rows * self.cell + self.below)

    def draw(self, x: float, y: float, top: float) -> str:
        """Draw the map with its upper left corner at (x, y); `top` is the weight of the darkest colour."""
        left, upper = x + self.left, y + _TITLE
        rows, columns = self.heatmap.weights.shape
        frame = (
            f'<rect x="{left}" y="{upper}" width="{columns * self.cell:.6g}" height="{rows * self.cell:.6g}" '
            'fill="none" stroke="#c9d0d8"/>\n'
        )
        title = " · ".join(filter(None, (self.heatmap.title, self.heatmap.summary())))
        return "".join(
            [
                _text(title, left, y + 14, size=12, weight=600),
                self._cells(left, upper, top) if rows * columns <= CELLS else self._image(left, upper, top),
                frame,
                self._gold(left, upper),
                *self._labels(left, upper),
            ]
        )

    def _cells(self, left: float, upper: float, top: float) -> str:
        """Draw all cells of a colour as one path."""
        one, cell = self.heatmap, self.cell
        colours = shades(one.shown, "linear", top)
        drawn = one.attended & ~one.bad
        paths = []
        for shade in np.unique(colours[drawn]).tolist():
            places = np.argwhere((colours == shade) & drawn).tolist()
            d = "".join(
                f"M{left + column * cell:.6g} {upper + row * cell:.6g}h{cell:.6g}v{cell:.6g}h-{cell:.6g}z"
                for row, column in places
            )
            paths.append(f'<path d="{d}" fill="{_hex(shade)}"/>\n')
        for row, column in np.argwhere(~drawn).tolist():
            x, y = left + column * cell, upper + row * cell
            paths.append(
                f'<path d="M{x:.6g} {y:.6g}h{cell:.6g}v{cell:.6g}h-{cell:.6g}z" fill="#eef0f2"/>'
                f'<path d="M{x:.6g} {y + cell:.6g}l{cell:.6g} -{cell:.6g}" stroke="#c3c9d0"/>\n'
            )
        return "".join(paths)

    def _image(self, left: float, upper: float, top: float) -> str:
        image = Image.fromarray(cell_pixels(self.heatmap, (1, 1), (1, 1), "linear", top))
        image.putpalette(PALETTE.tobytes())
        rows, columns = self.heatmap.weights.shape
        data = b64encode(to_png(image)).decode()
        wide, high = columns * self.cell, rows * self.cell
        return (
            f'<image x="{left}" y="{upper}" width="{wide:.6g}" height="{high:.6g}" '
            f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/>\n'
        )

    def _gold(self, left: float, upper: float) -> str:
        side = f"{self.cell:.6g}"
        return "".join(
            f'<rect x="{left + column * self.cell:.6g}" y="{upper + row * self.cell:.6g}" width="{side}" '
            f'height="{side}" fill="none" stroke="{_hex(GOLD)}" stroke-width="2"/>\n'
            for row, column in np.argwhere(self.heatmap.golden).tolist()
        )

    def _labels(self, left: float, upper: float) -> list[str]:
        lower = upper + len(self.queries) * self.cell
        middle = self.cell / 2
        texts = [
            _text(label, left - 6, upper + number * self.cell + middle + 4, anchor="end")
            for number, label in list(enumerate(self.queries))[:: self.step]
        ]
        for number, label in list(enumerate(self.keys))[:: self.step]:
            x = left + number * self.cell + middle
            if self.turned:
                texts.append(_text(label, x + 4, lower + 8, anchor="end", turn=-90))
            else:
                texts.append(_text(label, x, lower + 15, anchor="middle"))
        return texts


def _bar(x: float, y: float, top: float) -> str:
    """The colour bar from 0 to `top`."""
    steps, height = 48, 160
    parts = [
        f'<rect x="{x}" y="{y + at * height / steps:.6g}" width="13" height="{height / steps + 0.5:.6g}" '
        f'fill="{_hex(round((1 - at / (steps - 1)) * (SHADES - 1)))}"/>\n'
        for at in range(steps)
    ]
    ticks = [_text(f"{top * part:.3g}", x + 19, y + height * (1 - part) + 4) for part in (0, 0.5, 1)]
    return "".join([*parts, *ticks, _text("weight", x, y - 8)])


def _hex(shade: int) -> str:
    return "#" + bytes(PALETTE[shade]).hex()


def _short(label: str) -> str:
    """A label cut to a limited length."""
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def _text(
    text: str,
    x: float,
    y: float,
    *,
    size: int = _TEXT,
    weight: int = 400,
    anchor: str = "start",
    turn: int = 0,
) -> str:
    """A text element, without the control characters that XML does not allow."""
    turned = f' transform="rotate({turn} {x:.6g} {y:.6g})"' if turn else ""
    shown = escape(
        "".join(
            one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:200].replace("\t", " ")
        )
    )
    return (
        f'<text x="{x:.6g}" y="{y:.6g}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{_hex(INK)}"{turned}>{shown}</text>\n'
    )
