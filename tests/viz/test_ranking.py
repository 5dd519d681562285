"""The picture of a leaderboard: what is drawn where, whatever the numbers and names."""

import math
from typing import Any

import numpy as np
import pytest

from attention_lab.viz import ranking
from attention_lab.viz.ranking import COLOURS, Bar, Panel, draw_ranking

NAN = math.nan
BARS = [
    Bar("dot", 0.1, (0.08, 0.12), [0.09, 0.1, 0.11], "best"),
    Bar("general", 0.12, (0.09, 0.15), [0.11, 0.12, 0.13], "tied"),
    Bar("constant", 0.7, (0.6, 0.8), [0.6, 0.7, 0.8], "worse"),
]


@pytest.fixture
def dots(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float, Any, bool]]:
    """The dots drawn: x, y, colour, and whether it is a ring."""
    drawn = []
    plain = ranking._Paper.dot

    def keep(self: Any, x: float, y: float, colour: Any, radius: float, ring: bool = False) -> None:
        drawn.append((x, y, colour, ring))
        plain(self, x, y, colour, radius, ring)

    monkeypatch.setattr(ranking._Paper, "dot", keep)
    return drawn


def test_means_stand_in_their_order_on_one_axis(dots: list[tuple[float, float, Any, bool]]) -> None:
    image = draw_ranking("Scores", [Panel("", "error rate", BARS)])
    means = [(x, y, colour) for x, y, colour, ring in dots if not ring][3:]  # after those of the legend
    assert [colour for _, _, colour in means] == [COLOURS[bar.verdict] for bar in BARS]
    (first, second, third), heights = [x for x, _, _ in means], [y for _, y, _ in means]
    assert (second - first) / (third - first) == pytest.approx(0.02 / 0.6)
    assert heights == sorted(heights) and len(set(heights)) == 3
    rings = [x for x, _, _, ring in dots if ring]
    assert len(rings) == 9 and rings[1] == pytest.approx(first)
    assert all(0 < x < image.size[0] for x in rings)


def test_a_legend_names_only_what_there_is(dots: list[tuple[float, float, Any, bool]]) -> None:
    draw_ranking("", [Panel("", "", BARS[:1])])
    assert len([one for one in dots if not one[3]]) == 2  # one in the legend, one mean


def test_an_interval_far_wider_than_the_values_does_not_press_them_together(
    dots: list[tuple[float, float, Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tips: list[int] = []  # arrows that say so
    monkeypatch.setattr(ranking._Paper, "tip", lambda self, x, y, side, colour: tips.append(side))
    draw_ranking("", [Panel("", "", [Bar("a", 0.1, (-49.9, 50.1), [0.09, 0.11], "best"), *BARS[1:]])])
    means = [x for x, _, _, ring in dots if not ring][3:]
    assert means[2] - means[0] > 200
    assert tips == [-1, 1]


def test_a_picture_is_the_same_each_time_and_not_empty() -> None:
    first, again = (np.asarray(draw_ranking("T", [Panel("p", "x", BARS)])) for _ in range(2))
    assert (first == again).all() and len(np.unique(first.reshape(-1, 3), axis=0)) > 20


@pytest.mark.parametrize(
    "bars",
    [
        [],
        [Bar("diverged", NAN, (NAN, NAN), [NAN, math.inf], "open")],
        [Bar("one", 0.0, (NAN, NAN), [0.0], "best")],
        [Bar("huge", 1e300, (NAN, NAN), [1e300], "best"), Bar("tiny", -1e300, (NAN, NAN), [], "worse")],
        [Bar("=1|[red]\n\x1b[31m" + "x" * 5000, 1.0, (1.0, 1.0), [1.0], "best")],
    ],
)
def test_odd_numbers_and_names_are_drawn(bars: list[Bar]) -> None:
    assert draw_ranking("a\nb" * 200, [Panel("p" * 900, "y", bars)]).size[0] == ranking._WIDTH


def test_too_many_settings_are_counted() -> None:
    many = Panel(
        "",
        "x",
        [Bar(str(i), i / 100, (i / 100 - 0.01, i / 100 + 0.01), [i / 100], "worse") for i in range(500)],
    )
    assert draw_ranking("", [many] * 3).size[1] < 4000
