"""The labels of a plot: shortened if too long, never overlapping, never read as mathematics."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import fontManager

from attention_lab.viz.plots.text_placement import families, fitted, spread_out


@given(st.lists(st.floats(-10, 10), max_size=8).map(sorted), st.floats(0.01, 2))
def test_names_are_apart_and_in_order_and_centred(heights: list[float], gap: float) -> None:
    moved = spread_out(heights, gap)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(moved))
    assert sum(moved) == pytest.approx(sum(heights), abs=1e-6)


def test_names_that_are_apart_stay() -> None:
    assert spread_out([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread_out([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])


def test_a_text_ends_where_there_is_no_more_room() -> None:
    assert fitted("short", 10, 100) == "short"
    cut = fitted("a long name of a setting", 10, 60)
    assert cut.startswith("a long") and cut.endswith("…") and len(cut) < 15
    assert fitted("x" * 10_000, 10, 1e4).endswith("…")
    assert fitted("costs $1 to $2", 10) == r"costs \$1 to \$2"
    assert fitted("a\nb\0", 10) == "a↵b\ufffd"


def test_fonts_are_those_of_the_other_pictures_that_matplotlib_knows() -> None:
    assert families()[0] == "DejaVu Sans"
    assert set(families()) <= set(fontManager.get_font_names())
