"""Small attention maps for light and dark pages, such as TensorBoard's Images tab.

TensorBoard shows pictures 200 to 350 pixels wide, on a light or a dark page. So these have little, large text
and are transparent: a weight is the opacity of one colour, which stands out from white and from dark grey.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import truediv

import numpy as np
from PIL import Image

from attention_lab.viz.canvas import SHADES, Canvas
from attention_lab.viz.cells import Heatmap, Sides, draw_cells
from attention_lab.viz.fonts import label_mask
from attention_lab.viz.layout import is_turned

WIDTH, HEIGHT = 800, 460
"""Maximum size in pixels, about twice the size at which TensorBoard shows it."""
_MARGIN, _GAP, _SPACE = 14, 30, 8
_HEADING, _CAPTION = 50, 36
_TITLE, _TEXT = 28, 24
_LINE = round(1.4 * _TEXT)
_PITCH = _TEXT  # pixels from one label to the next; capital letters take three quarters of that
_LARGEST = 72  # maximum side of a cell in pixels
_BAR = (130, 18)
_ROOM = 130  # maximum length of a label in pixels
_QUIET = 0.8
_MOST = 36  # panels


@dataclass(frozen=True)
class _Plan:
    """Sizes in pixels of cells, maps and the labels, which are written once, left of and below all maps."""

    columns: int
    rows: int
    cell: Sides
    block: Sides
    left: int
    below: int
    width: int
    height: int

    @property
    def step(self) -> Sides:
        """Down and across, one label out of this many has room."""
        down, across = (
            ceil(_PITCH * block / cell) for block, cell in zip(self.block, self.cell, strict=True)
        )
        return down, across

    def corner(self, number: int) -> tuple[int, int]:
        """The left and upper edge of a map."""
        row, column = divmod(number, self.columns)
        left = _MARGIN + self.left + column * (self.width + _GAP)
        return left, _MARGIN + _HEADING + _CAPTION + row * (_CAPTION + self.height + _GAP)


def draw_thumbnail(maps: Sequence[Heatmap], *, title: str = "", maximum: float = 1.0) -> Image.Image:
    """Draw maps as one transparent picture whose text is legible at half its size.

    The maps must have the same labels, as the heads of an attention do; those of the outer maps are written.

    Args:
        maps: the panels, row by row; at most 36 are drawn.
        title: the title above the maps, beside the colour bar.
        maximum: the weight of the strongest colour.

    Returns:
        A picture in palette mode ("P") with transparency.

    Raises:
        ValueError: there are no maps, or `maximum` is not positive.
    """
    if not maps:
        raise ValueError("no heatmaps to draw")
    drawn = maps[:_MOST]
    plan = _best_plan(drawn)
    right, bottom = plan.corner(plan.columns * plan.rows - 1)
    bar = _BAR[0] + label_mask(f"{maximum:.3g}", _TEXT).shape[1] + 70
    wanted = 2 * _MARGIN + label_mask(title, _TITLE).shape[1] + bar
    width = max(right + plan.width + _MARGIN, min(WIDTH, wanted))
    canvas = Canvas(width, bottom + plan.height + plan.below + _MARGIN)
    canvas.text(title, (_MARGIN, _MARGIN + 16), size=_TITLE, limit=width - 2 * _MARGIN - bar)
    _colour_bar(canvas, width - _MARGIN, _MARGIN + 16, maximum)
    for number, heatmap in enumerate(drawn):
        _panel(canvas, heatmap, plan, *plan.corner(number), maximum)
        if number % plan.columns == 0:
            _query_labels(canvas, heatmap, plan, *plan.corner(number))
        if number + plan.columns >= len(drawn):
            _key_labels(canvas, heatmap, plan, *plan.corner(number))
    return canvas.image(themed=True)


def _best_plan(maps: Sequence[Heatmap]) -> _Plan:
    """The plan with the number of columns for which cells are largest."""
    plans = [_plan(maps, columns) for columns in range(1, len(maps) + 1)]
    return max(plans, key=lambda plan: (*sorted(map(truediv, plan.cell, plan.block)), -plan.columns))


def _plan(maps: Sequence[Heatmap], columns: int) -> _Plan:
    queries, keys = (max(1, *(heatmap.weights.shape[axis] for heatmap in maps)) for axis in (0, 1))
    rows = ceil(len(maps) / columns)
    left = max((_width(label) + _SPACE for label in maps[0].queries[:64]), default=0)
    longest = max((_width(label) for label in maps[0].keys[:64] if len(label) > 1), default=0)
    across = max(8, (WIDTH - 2 * _MARGIN - left + _GAP) // columns - _GAP)

    def down(below: int) -> int:
        return max(8, (HEIGHT - 2 * _MARGIN - _HEADING - below + _GAP) // rows - _GAP - _CAPTION)

    below = _LINE + _SPACE if any(maps[0].keys) else 0
    cell = _cell(down(below) // queries, across // keys)
    if longest > _slot(cell[1]):  # some labels read upwards
        below = longest + _SPACE
        cell = _cell(down(below) // queries, across // keys)
    block = max(1, ceil(queries / down(below))), max(1, ceil(keys / across))
    caption = max(label_mask(_caption(heatmap), _TEXT).shape[1] for heatmap in maps)
    width = max(ceil(keys / block[1]) * cell[1], min(caption, across))
    return _Plan(columns, rows, cell, block, left, below, width, ceil(queries / block[0]) * cell[0])


def _cell(down: int, across: int) -> Sides:
    """Height and width of a cell, at most two to one unless its short side is very small."""
    down, across = (max(1, min(_LARGEST, side)) for side in (down, across))
    return min(down, max(_PITCH, 2 * across)), min(across, max(_PITCH, 2 * down))


def _width(label: str) -> int:
    return int(label_mask(label, _TEXT, _ROOM).shape[1])


def _slot(pitch: float) -> float:
    """The space in pixels for one written label."""
    return pitch * max(1, ceil(_PITCH / pitch)) - 4


def _caption(heatmap: Heatmap) -> str:
    return "  ".join(filter(None, (heatmap.title, heatmap.summary())))


def _panel(canvas: Canvas, heatmap: Heatmap, plan: _Plan, left: int, top: int, maximum: float) -> None:
    draw_cells(canvas, heatmap, left, top, plan.cell, plan.block, maximum)
    line, start = top - _CAPTION // 2 - 2, left
    if heatmap.title:
        start += 12 + canvas.text(heatmap.title, (left, line), size=_TEXT, limit=plan.width)
    if label_mask(heatmap.summary(), _TEXT).shape[1] <= left + plan.width - start:
        canvas.text(heatmap.summary(), (start, line), size=_TEXT, strength=_QUIET)


def _query_labels(canvas: Canvas, heatmap: Heatmap, plan: _Plan, left: int, top: int) -> None:
    for number in range(0, min(len(heatmap.queries), heatmap.weights.shape[0]), plan.step[0]):
        middle = top + round((number // plan.block[0] + 0.5) * plan.cell[0])
        label = heatmap.queries[number]
        canvas.text(label, (left - _SPACE, middle), anchor=(1.0, 0.5), size=_TEXT, limit=plan.left - _SPACE)


def _key_labels(canvas: Canvas, heatmap: Heatmap, plan: _Plan, left: int, top: int) -> None:
    for number in range(0, min(len(heatmap.keys), heatmap.weights.shape[1]), plan.step[1]):
        middle = left + round((number // plan.block[1] + 0.5) * plan.cell[1])
        turned = is_turned(heatmap.keys[number], _TEXT, _ROOM, _slot(plan.cell[1] / plan.block[1]))
        place = (middle, top + plan.height + _SPACE)
        canvas.text(heatmap.keys[number], place, anchor=(0.5, 0.0), size=_TEXT, limit=_ROOM, turned=turned)


def _colour_bar(canvas: Canvas, right: int, line: int, maximum: float) -> None:
    """Draw the bar of colours from 0 to `maximum`, with these two numbers."""
    width, height = _BAR
    taken = canvas.text(f"{maximum:.3g}", (right, line), anchor=(1.0, 0.5), size=_TEXT, strength=_QUIET)
    start, top = right - taken - 10 - width, line - height // 2
    bar = np.rint(np.linspace(0, SHADES - 1, width)).astype(np.uint8)
    canvas.pixels[top : top + height, start : start + width] = bar
    canvas.frame(start, top, width, height)
    canvas.text("0", (start - 10, line), anchor=(1.0, 0.5), size=_TEXT, strength=_QUIET)
