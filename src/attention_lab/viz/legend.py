"""The colour bar beside attention maps."""

import numpy as np

from attention_lab.viz.canvas import PAPER, SHADES, Canvas
from attention_lab.viz.cells import Scale, shades
from attention_lab.viz.layout import CAPTION

BAR_HEIGHT = 200
SWATCH = 16
"""Pixels of a side of a legend's sample."""
QUIET = 0.62
"""Strength of what is not a label."""

_BAR_WIDTH = 16
_TICKS: dict[Scale, tuple[float, ...]] = {
    "linear": (0, 0.25, 0.5, 0.75, 1),
    "sqrt": (0, 0.01, 0.05, 0.1, 0.25, 0.5, 1),
}


def colour_bar(
    canvas: Canvas, left: int, top: int, scale: Scale, maximum: float, deepest: float = 1.0
) -> None:
    """Draw the colours from 0 to `maximum`, the part `deepest` of the map, with ticks and their weights."""
    name = "weight" if scale == "linear" else "weight (√)"
    canvas.text(name, (left - 1, top - CAPTION // 2 - 2), strength=QUIET)
    bar = np.rint(np.linspace((SHADES - 1) * deepest, 0, BAR_HEIGHT)).astype(np.uint8)
    canvas.pixels[top : top + BAR_HEIGHT, left : left + _BAR_WIDTH] = bar[:, None]
    canvas.frame(left, top, _BAR_WIDTH, BAR_HEIGHT)
    ticks = np.array(_TICKS[scale]) * maximum
    for tick, shade in zip(ticks, shades(ticks, scale, maximum), strict=True):
        height = top + round((1 - shade / (SHADES - 1)) * (BAR_HEIGHT - 1))
        right = left + _BAR_WIDTH
        canvas.pixels[height, right : right + 4] = PAPER + 22
        canvas.text(f"{tick:.3g}", (right + 8, height), size=11)
