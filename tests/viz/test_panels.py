"""Panels of a finding: every kind of mark is there, in the colour of its line."""

import math

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from attention_lab.viz.panels import Cells, Dots, Line, Lines, _intervals, draw_panels
from attention_lab.viz.plot import COLOURS


def pixels_of(colour: str, image: np.ndarray) -> int:
    value = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((image == value).all(-1).sum())


def test_every_line_is_drawn_in_its_colour() -> None:
    lines = [Line("one", [1, 10, 100], [1.0, 2.0, 3.0]), Line("two", [1, 10], [0.5, math.nan], colour=3)]
    image = np.asarray(draw_panels([Lines(lines, log_x=True)], title="title", note="note"))
    drawn = [pixels_of(colour, image) > 50 for colour in COLOURS]
    assert drawn == [True, False, False, True, False, False, False]


def test_an_interval_stays_within_what_there_can_be() -> None:
    line = Line("", [0, 1, 2], [0.98, 0.5, 0.02], halves=[0.05, 0.1, 0.05])
    assert _intervals(line, None) == [[0.05, 0.1, 0.05]] * 2
    below, above = _intervals(line, (0.0, 1.0)) or [[], []]
    assert below == pytest.approx([0.05, 0.1, 0.02])
    assert above == pytest.approx([0.02, 0.1, 0.05])
    assert _intervals(Line("", [0], [1]), (0.0, 1.0)) is None


def test_panels_stand_side_by_side_and_are_the_same_every_time() -> None:
    lines = Lines([Line("falls", [1, 2, 3], [1.0, 1e-4, 0.0])], log_y=True)
    dots = Dots(["a", "b"], [0.1, 10.0], [0.05, 1.0], [0, 1], log=True, reference=1.0)
    cells = Cells(np.eye(4), mark=(1, 2))
    one, two = (np.asarray(draw_panels([lines, dots, cells])) for _ in range(2))
    assert np.array_equal(one, two)
    thirds = np.array_split(one, 3, axis=1)
    assert pixels_of(COLOURS[1], thirds[0]) == 0
    assert pixels_of(COLOURS[1], thirds[1]) > 50, "the second row of dots"
    assert pixels_of(COLOURS[1], thirds[2]) > 20, "the ring"


def test_cells_are_darker_the_larger() -> None:
    image = np.asarray(draw_panels([Cells(np.array([[0.0, 1.0]]))])).astype(int)
    height, width = image.shape[:2]
    light, dark = (image[int(0.6 * height), int(share * width)].sum() for share in (0.3, 0.8))
    assert dark < light - 200
