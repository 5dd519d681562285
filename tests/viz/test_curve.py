"""Line plots."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attention_lab.viz import draw_curve, to_png
from attention_lab.viz.curve import round_ticks

BLUE, GREEN, GREY, ORANGE = (0, 94, 162), (0, 150, 110), (128, 138, 150), (230, 110, 0)
LEGEND_END = 40  # pixels from the top, in a plot without title


def where(image: Image.Image, colour: tuple[int, int, int]) -> npt.NDArray[np.intp]:
    """[count, 2] row and column of the pixels of exactly this colour, below the legend."""
    matching = (np.asarray(image) == np.array(colour)).all(axis=2)
    matching[:LEGEND_END] = False
    return np.argwhere(matching)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0.0, 1.0, 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.0, 5.0, 6, [0, 1, 2, 3, 4, 5]),
        (-3.0, 97.0, 5, [0, 50]),
        (-0.07, 0.07, 4, [-0.05, 0, 0.05]),
        (1.2e6, 3.4e6, 6, [1.5e6, 2e6, 2.5e6, 3e6]),
    ],
)
def test_round_ticks_by_hand(low: float, high: float, most: int, expected: list[float]) -> None:
    assert round_ticks(low, high, most) == pytest.approx(expected)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(5, 12))
def test_ticks_lie_within_and_apart(low: float, extent: float, most: int) -> None:
    ticks = np.array(round_ticks(low, low + extent, most))
    assert 1 <= len(ticks) <= most
    assert ticks.min() >= low - 1e-6 * extent and ticks.max() <= low + extent * (1 + 1e-6)
    np.testing.assert_allclose(np.diff(ticks, 2), 0, atol=1e-6 * extent)


def test_lines_go_where_the_numbers_say() -> None:
    pixels = where(draw_curve({"up": ([0, 1], [0, 1])}, size=(400, 400)), BLUE)
    rows, columns = pixels[:, 0], pixels[:, 1]
    assert rows[0] < rows[-1] and columns[0] > columns[-1]  # y grows upwards
    slope, start = np.polyfit(columns, rows, 1)
    assert np.abs(slope * columns + start - rows).max() < 3


def test_first_line_is_solid_and_the_others_dashed() -> None:
    x = np.linspace(0, 1, 50)
    image = draw_curve({"fit": (x, 0 * x), "true": (x, 0 * x + 1)})
    for colour, gaps in ((BLUE, False), (GREEN, True)):
        columns = np.unique(where(image, colour)[:, 1])
        assert (np.diff(columns).max() > 3) == gaps
        assert columns[-1] - columns[0] > 600


def test_a_line_breaks_where_it_is_not_finite() -> None:
    y = np.zeros(101)
    y[40:60] = [np.nan, np.inf, -np.inf, 1e301] * 5
    columns = np.unique(where(draw_curve({"fit": (np.arange(101), y)}), BLUE)[:, 1])
    gaps = np.diff(columns)
    assert (gaps > 100).sum() == 1 and gaps.max() < 180


def test_points_are_dots_of_their_colours() -> None:
    image = draw_curve({}, points={"train": ([0, 1, 2], [0, 0, 0]), "test": ([0, 1, 2], [1, 1, 1])})
    for colour in (GREY, ORANGE):
        columns = np.unique(where(image, colour)[:, 1])
        assert (np.diff(columns) > 100).sum() == 2
    assert where(image, ORANGE)[:, 0].max() < where(image, GREY)[:, 0].min()


def test_legend_title_and_axis_names_are_drawn() -> None:
    def picture(title: str = "t", x: str = "x", y: str = "y", name: str = "fit") -> bytes:
        lines = {name: ([0, 1], [0, 1])}
        return to_png(draw_curve(lines, title=title, x_label=x, y_label=y))

    assert picture() == picture()
    assert len({picture(), picture(title="u"), picture(x="z"), picture(y="z"), picture(name="fat")}) == 5


@pytest.mark.parametrize(
    "values", [[], [3.0], [2.0, 2.0], [np.nan, np.nan], [1e300, -1e299], [1e-30, 2e-30], [1e9, 1e9 + 1]]
)
def test_any_values_can_be_drawn(values: list[float]) -> None:
    series = {"\0" * 10_000: (np.arange(len(values)), values)}
    image = draw_curve(series, points=series, title="<b>\n" * 99, x_label="漢" * 300, y_label="y" * 300)
    assert image.size == (760, 460)


def test_many_names_leave_room_for_the_plot() -> None:
    names = {f"a line with a long name {number}": ([0, 1], [0, number]) for number in range(60)}
    pixels = where(draw_curve(names, size=(240, 200)), BLUE)
    assert pixels[:, 0].max() > 120


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="fit: 2 x but 3 y"):
        draw_curve({"fit": ([0, 1], [0, 1, 2])})
    with pytest.raises(ValueError, match="at least 240 x 200 pixels, not 100 x 300"):
        draw_curve({}, size=(100, 300))
