"""Where plots write names and numbers: beside what they name, without covering anything."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from attention_lab.viz.plots import make_figure
from attention_lab.viz.plots.panels import Bubbles, Lines, Panel, Series


def axes_of(panel: Panel) -> Axes:
    """The axes of a figure of one panel."""
    return make_figure([panel]).axes[0]


def _overlap(boxes: list[Any]) -> bool:
    return any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[number + 1 :])


@pytest.mark.long
def test_names_of_bubbles_touch_neither_one_another_nor_lines() -> None:
    """The points of docs/efficiency.png, whose labels touched one another and cut the lines."""
    lines = {
        "scaled_dot": ([81.6, 32.8, 9.8], [0.98, 0.987, 0.969], [4, 7, 13]),
        "linear": ([167, 95.3, 63.2], [1.0, 1.0, 1.0], [4, 9, 17]),
        "rnn": ([90.6, 19.2, 8.07], [0.689, 0.733, 0.825], [5, 11, 24]),
        "additive": ([14.1, 3.6, 0.675], [1.0, 1.0, 1.0], [59, 167, 398]),
    }
    series = [
        Series(name, *values, areas=areas, texts=["1,000", "2,000", "4,000"])
        for name, (*values, areas) in lines.items()
    ]
    axes = axes_of(Bubbles(series, x_label="x", y_label="y"))
    names = [text for text in axes.texts if text.get_text()]
    assert len(names) == 12
    assert not _overlap([name.get_window_extent() for name in names])
    for name in names:
        away = np.array(name.get_position())
        assert np.hypot(*away) < 60, "it is near its bubble"
    boxes = [name.get_window_extent() for name in names]
    joined = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert len(joined) == 4
    for line in joined:
        for ends in pairwise(axes.transData.transform(line.get_xydata())):
            assert not any(box.contains(*place) for place in np.linspace(*ends, 100) for box in boxes)


def test_names_stand_beside_lines_that_end_early_and_touch_no_line() -> None:
    sizes = [10, 30, 100, 300, 1000, 3000]
    ways = {
        "short": [1, 3, 9],
        "shorter": [2.0, 40],
        "long": [1, 1.2, 2, 4, 9, 20],
        "crowded": [1.01, 3.05, 9.1],
    }
    series = [Series(name, sizes[: len(ys)], ys) for name, ys in ways.items()]
    axes = axes_of(Lines(series, log_x=True, log_y=True, names="ends"))
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert boxes.keys() == ways.keys() and not _overlap(list(boxes.values()))
    right = axes.get_window_extent().x1
    assert boxes["long"].x0 > right, "it ends at the edge"
    end = axes.transData.transform((30, 40))
    assert boxes["shorter"].x1 < right and abs(boxes["shorter"].x0 - end[0]) < 60
    for name in ("shorter", "short"):
        for line, ys in ways.items():
            for x, y in zip(sizes, ys, strict=False):
                assert not boxes[name].contains(*axes.transData.transform((x, y))), (name, line)


@pytest.mark.parametrize(("last", "shown"), [(4, 2), (16, 2), (2000, 1)])
def test_numbers_below_an_axis_do_not_touch(last: int, shown: int) -> None:
    ticks = [1024 * 2**power for power in range(7)][: 4 if last == 4 else 7]
    series = [Series("a name that takes most of the width of the panel", [1, last * 1024], [1, 2])]
    axes = axes_of(Lines(series, log_x=True, ticks=ticks, names="ends"))
    drawn = [name for name in axes.get_xticklabels() if name.get_visible()]
    assert not _overlap([name.get_window_extent() for name in drawn])
    assert len(drawn) >= shown and drawn[0].get_text() == "1,024"
