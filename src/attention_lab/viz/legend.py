"""The surroundings of attention maps: the title above them, and the legend beside them."""

from collections.abc import Sequence

import numpy as np

from attention_lab.viz.canvas import BAD, LINE, SHADES, Paper
from attention_lab.viz.cells import shades
from attention_lab.viz.layout import CAPTION, HEADING, MARGIN, SUBHEADING

BAR_HEIGHT = 200
SWATCH = 16
"""Side of a legend's sample in pixels."""
QUIET = 0.62
"""Strength of text that is not a label."""

SAMPLES = BAR_HEIGHT + 24
"""Distance from the upper edge of the colour bar to that of the first sample."""

_BAR_WIDTH = 16
_TICKS = np.array([0, 0.25, 0.5, 0.75, 1])


def heading_height(title: str, subtitle: str) -> int:
    """Height in pixels that `draw_heading` needs."""
    return (HEADING if title else 0) + (SUBHEADING if subtitle else 0)


def draw_heading(paper: Paper, title: str, subtitle: str) -> None:
    """Write the picture's title and the smaller line below it, if there are any."""
    room = paper.width - 2 * MARGIN
    if title:
        paper.text(title, (MARGIN, MARGIN + 10), size=17, limit=room)
    if subtitle:
        line = MARGIN + heading_height(title, subtitle) - SUBHEADING // 2 - 6
        paper.text(subtitle, (MARGIN, line), size=14, limit=room, strength=QUIET)


def draw_legend(
    paper: Paper,
    left: int,
    top: int,
    entries: Sequence[str],
    *,
    maximum: float,
    deepest: float = 1.0,
) -> None:
    """Draw the colour bar, and below it a sample of whatever else the maps show.

    Args:
        paper: what to draw on.
        left: left edge of the bar and the samples.
        top: upper edge of the bar; its name is written above.
        entries: some of "masked", "gold" and "not finite".
        maximum: the weight at the upper end of the bar.
        deepest: the part of the colour map that is used, from 0 to 1.
    """
    _colour_bar(paper, left, top, maximum, deepest)
    for number, name in enumerate(entries):
        _sample(paper, left, top + SAMPLES + number * (SWATCH + 8), name)


def _sample(paper: Paper, left: int, top: int, name: str) -> None:
    if name == "masked":
        paper.hatch(left, top, SWATCH, SWATCH)
    elif name == "gold":
        paper.outline(left, top, SWATCH, SWATCH)
    else:
        paper.fill(left, top, SWATCH, SWATCH, BAD)
    paper.text(name, (left + SWATCH + 8, top + SWATCH // 2), size=11)


def _colour_bar(paper: Paper, left: int, top: int, maximum: float, deepest: float) -> None:
    """Draw the bar of colours from 0 to `maximum`, with ticks and their weights."""
    paper.text("weight", (left - 1, top - CAPTION // 2 - 2), strength=QUIET)
    paper.ramp(left, top, _BAR_WIDTH, BAR_HEIGHT, deepest)
    paper.frame(left, top, _BAR_WIDTH, BAR_HEIGHT)
    right = left + _BAR_WIDTH
    ticks = _TICKS * maximum
    for tick, shade in zip(ticks, shades(ticks, maximum), strict=True):
        height = top + round((1 - shade / (SHADES - 1)) * (BAR_HEIGHT - 1))
        paper.fill(right, height, 4, 1, LINE)
        paper.text(f"{tick:.3g}", (right + 8, height), size=11)
