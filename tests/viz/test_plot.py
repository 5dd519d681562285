"""Plots of measurements: what is in them, where it stands, and that names do not cover one another."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

from attention_lab.viz.plot import Measured, draw_bubbles, draw_lines, spread_out

from attention_lab.viz import plot

NAN = math.nan
ROWS = [
    Measured("first", [10, 100, 1000], [0.2, 0.5, 0.9], [(0.1, 0.3), (0.45, 0.52), (NAN, NAN)]),
    Measured("second", [10, 100, 1000], [0.3, 0.6, 0.8], [(NAN, NAN)] * 3),
]


@given(st.lists(st.floats(-10, 10), max_size=8).map(sorted), st.floats(0.01, 2))
def test_names_are_apart_and_in_order_and_centred(heights: list[float], gap: float) -> None:
    moved = spread_out(heights, gap)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(moved))
    assert sum(moved) == pytest.approx(sum(heights), abs=1e-6)


def test_names_that_are_apart_stay() -> None:
    assert spread_out([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread_out([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])


def test_values_over_decades_get_a_logarithmic_axis_with_the_values_as_ticks(drawn_axes) -> None:
    draw_lines(ROWS, title="Title", note="note", x_label="size", y_label="accuracy")
    assert drawn_axes[0].get_xscale() == "log"
    assert [label.get_text() for label in drawn_axes[0].get_xticklabels()] == ["10", "100", "1,000"]
    assert drawn_axes[0].get_title(loc="left") == "Title"
    assert {"note", "first", "second"} <= {text.get_text() for text in drawn_axes[0].texts}
    draw_lines([Measured("", [1, 2, 3], [1.0, 2.0, 3.0], [(NAN, NAN)] * 3)])
    assert drawn_axes[1].get_xscale() == "linear"


def test_bars_reach_from_end_to_end_of_the_intervals_and_are_inside(drawn_axes) -> None:
    draw_lines(ROWS)
    first = drawn_axes[0].containers[0][2][0].get_segments()
    assert [bar[:, 1].tolist() for bar in first[:2]] == [
        pytest.approx([0.1, 0.3]),
        pytest.approx([0.45, 0.52]),
    ]
    low, high = drawn_axes[0].get_ylim()
    assert low < 0.1
    assert high > 0.9


def test_categories_stand_in_the_order_given(drawn_axes) -> None:
    draw_lines([Measured("a", ["x", "z", "y"], [1.0, 2.0, 3.0], [(0.5, 3.5)] * 3)])
    assert [label.get_text() for label in drawn_axes[0].get_xticklabels()] == ["x", "z", "y"]
    assert all(line.get_linestyle() == "None" for line in drawn_axes[0].lines)


def test_a_bubble_s_area_is_its_number(drawn_axes) -> None:
    rows = [
        Measured("small", [1.0], [0.5], [(0.49, 0.51)], x_intervals=[(0.9, 1.1)], areas=[100.0]),
        Measured("large", [30.0], [0.6], [(0.58, 0.62)], x_intervals=[(NAN, NAN)], areas=[400.0]),
    ]
    draw_bubbles(rows, x_label="speed")
    small, large = (one.get_sizes()[0] for one in drawn_axes[0].collections if hasattr(one, "get_sizes"))
    assert large == pytest.approx(4 * small)
    assert drawn_axes[0].get_xscale() == "log"
    assert {"small\n100", "large\n400"} <= {text.get_text() for text in drawn_axes[0].texts}


def test_bubbles_with_texts_of_their_own_are_joined_and_named_below(drawn_axes) -> None:
    rows = [
        Measured("first", [1.0, 30.0], [0.5, 0.9], [(NAN, NAN)] * 2, areas=[100, 400], points=["10", "20"]),
        Measured("second", [2.0, 20.0], [0.2, 0.3], [(NAN, NAN)] * 2, areas=[100, 100], points=["10", "20"]),
    ]
    draw_bubbles(rows)
    assert {"10\n100", "20\n400"} <= {text.get_text() for text in drawn_axes[0].texts}
    (legend,) = drawn_axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]
    colours = [line.get_color() for line in legend.get_lines()]
    lines = [
        line for line in drawn_axes[0].lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2
    ]
    assert [line.get_color() for line in lines] == colours == list(plot.COLOURS[:2])
    assert list(lines[0].get_xdata()) == [1.0, 30.0]


def test_pictures_are_the_same_each_time_and_not_empty() -> None:
    for draw in (draw_lines, draw_bubbles):
        first, again = (np.asarray(draw(ROWS, title="T")) for _ in range(2))
        assert (first == again).all()
        assert first.shape[2] == 3
        assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20


def test_a_row_of_nothing_but_nan_is_drawn_as_nothing() -> None:
    assert (
        draw_lines([*ROWS, Measured("diverged", [10, 100, 1000], [NAN] * 3, [(NAN, NAN)] * 3)]).size[0] > 1000
    )
