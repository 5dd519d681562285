"""Plots: their content and layout, for any numbers and names."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from attention_lab.viz.plots import draw_panels, make_figure
from attention_lab.viz.plots.panels import COLOURS, Bubbles, Cells, Dot, Dots, Lines, Panel, Series

NAN = math.nan
ROWS = [
    Series("first", [10, 100, 1000], [0.2, 0.5, 0.9], [(0.1, 0.3), (0.45, 0.52), (NAN, NAN)]),
    Series("second", [10, 100, 1000], [0.3, 0.6, 0.8], [(NAN, NAN)] * 3),
]
DOTS = [
    Dot("dot", 0.1, (0.08, 0.12), [0.09, 0.1, 0.11], 0),
    Dot("general", 0.12, (0.09, 0.15), [0.11, 0.12, 0.13], 1),
    Dot("constant", 0.7, (0.6, 0.8), [0.6, 0.7, 0.8], 2),
]
EVERY: list[Panel] = [
    Lines([Series("falls", [1, 2, 3], [1.0, 1e-4, 0.0])], log_y=True),
    Dots([Dot("a", 0.1, (0.05, 0.15)), Dot("b", 10.0, (9.0, 11.0), group=1)], log=True, reference=1.0),
    Cells(np.eye(4), mark=(1, 2)),
    Bubbles(ROWS),
]


def axes_of(panel: Panel, **words: str) -> Axes:
    return make_figure([panel], **words).axes[0]


def lines_of(axes: Axes, colour: str) -> list[Any]:
    return [line for line in axes.lines if to_hex(line.get_color()).upper() == colour]


def words(axes: Axes) -> set[str]:
    return {text.get_text() for text in (*axes.texts, *axes.figure.texts)}


def pixels_of(colour: str, image: Any) -> int:
    value = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.asarray(image) == value).all(-1).sum())


def test_every_line_is_drawn_in_its_colour() -> None:
    lines = [Series("one", [1, 10, 100], [1.0, 2.0, 3.0]), Series("two", [1, 10], [0.5, NAN], colour=3)]
    image = draw_panels([Lines(lines, log_x=True)], title="title", note="note")
    drawn = [pixels_of(colour, image) > 50 for colour in COLOURS]
    assert drawn == [True, False, False, True, False, False, False]


def test_lines_break_where_they_are_not_finite_and_dashes_are_theory() -> None:
    y = np.zeros(101)
    y[40:60] = [NAN, np.inf, -np.inf, 1e301] * 5
    fit = Series("fit", np.arange(101), y, style="plain")
    axes = axes_of(Lines([fit, Series("true", [0, 100], [1, 1], style="dashed")]))
    (line,) = lines_of(axes, COLOURS[0])
    assert np.isnan(line.get_ydata()).tolist() == [40 <= i < 60 for i in range(101)]
    assert [one.is_dashed() for one in axes.lines] == [False, True]
    assert axes.get_ylim()[1] < 2


def test_samples_are_dots_without_a_line() -> None:
    axes = axes_of(Lines([Series("train", [0, 1, 2], [0, 0, 0], style="samples")], names="above"))
    (dots,) = axes.lines
    assert (dots.get_linestyle(), dots.get_marker()) == ("None", "o")
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["train"]


def test_values_as_ticks_on_a_logarithmic_axis_and_names_at_the_ends() -> None:
    panel = Lines(ROWS, "Panel", "size", "accuracy", log_x=True, ticks=[10, 100, 1000], names="ends")
    axes = axes_of(panel, title="Title", note="note")
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10", "100", "1,000"]
    assert (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) == ("Panel", "size", "accuracy")
    assert {"Title", "note", "first", "second"} <= words(axes)
    heights = {text.get_text(): text.xy[1] for text in axes.texts}
    for series in ROWS:
        low, high = axes.get_ylim()
        assert heights[series.name] == pytest.approx((series.y[-1] - low) / (high - low), abs=0.02)


def test_intervals_reach_from_end_to_end_and_are_inside() -> None:
    axes = axes_of(Lines(ROWS, apart=5))
    first = axes.containers[0][2][0].get_segments()
    assert [bar[:, 1].tolist() for bar in first[:2]] == [
        pytest.approx([0.1, 0.3]),
        pytest.approx([0.45, 0.52]),
    ]
    low, high = axes.get_ylim()
    assert low < 0.1
    assert high > 0.9


def test_series_that_are_apart_keep_the_axes_and_lose_the_overlap() -> None:
    together, apart = (axes_of(Lines(ROWS, apart=points)) for points in (0.0, 6.0))
    assert together.get_xlim() == apart.get_xlim() and together.get_ylim() == apart.get_ylim()
    one, two = (lines_of(apart, colour)[0].get_transform().transform((10, 0))[0] for colour in COLOURS[:2])
    assert two - one == pytest.approx(6 * 160 / 72)


def test_an_interval_stays_within_what_there_can_be() -> None:
    line = Series("", [0, 1, 2], [0.98, 0.5, 0.02], [(0.93, 1.03), (0.4, 0.6), (-0.03, 0.07)])
    axes = axes_of(Lines([line], within=(0.0, 1.0)))
    bars = [bar[:, 1].tolist() for bar in axes.containers[0][2][0].get_segments()]
    assert bars == [pytest.approx(ends) for ends in ([0.93, 1.0], [0.4, 0.6], [0.0, 0.07])]
    assert axes.get_ylim() == pytest.approx((0.0, 1.03))


def test_categories_stand_in_the_order_given() -> None:
    axes = axes_of(Lines([Series("a", ["x", "z", "y"], [1.0, 2.0, 3.0], [(0.5, 3.5)] * 3)]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "z", "y"]
    assert all(line.get_linestyle() == "None" for line in axes.lines)


def test_dots_stand_in_their_order_with_rings_for_their_points() -> None:
    panel = Dots(DOTS, x_label="error rate", groups=["best", "tied", "worse", "open"])
    axes = axes_of(panel)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dot", "general", "constant"]
    for y, dot in zip((2, 1, 0), DOTS, strict=True):
        rings, mean = lines_of(axes, COLOURS[dot.group])[-2:]
        assert rings.get_xdata().tolist() == dot.points and rings.get_markerfacecolor() == "white"
        assert (mean.get_xdata().tolist(), list(mean.get_ydata())) == ([dot.value], [y])
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["best", "tied", "worse"], "only what there is"


def test_a_heading_stands_above_the_names_of_dots() -> None:
    axes = axes_of(Dots(DOTS, heading="scoring"))
    names = dict(zip(axes.get_yticks(), (one.get_text() for one in axes.get_yticklabels()), strict=True))
    assert names == {2: "dot", 1: "general", 0: "constant", 3: "scoring"}
    assert axes.get_ylim() == pytest.approx((-0.6, 3.6))


def test_dots_without_usable_values_have_an_axis() -> None:
    empty = axes_of(Dots([Dot("diverged", NAN, (NAN, NAN), [NAN, math.inf]), Dot("huge", 1e300)]))
    assert math.isfinite(sum(empty.get_xlim()))


@pytest.mark.long
def test_panels_stand_side_by_side_or_below_one_another_and_are_the_same_every_time() -> None:
    one, two = (np.asarray(draw_panels(EVERY[:3])) for _ in range(2))
    assert np.array_equal(one, two)
    thirds = np.array_split(one, 3, axis=1)
    assert pixels_of(COLOURS[1], thirds[0]) == 0
    assert pixels_of(COLOURS[1], thirds[1]) > 50, "the second row of dots"
    assert pixels_of(COLOURS[1], thirds[2]) > 20, "the ring"
    figure = make_figure([Dots(DOTS), Dots(DOTS[:1])], stacked=True)
    upper, lower = (axes.get_position() for axes in figure.axes)
    assert (upper.x0, upper.x1) == pytest.approx((lower.x0, lower.x1))
    assert upper.y0 > lower.y1 and upper.height > 2 * lower.height


def test_cells_are_darker_the_larger() -> None:
    image = np.asarray(draw_panels([Cells(np.array([[0.0, 1.0]]))])).astype(int)
    height, width = image.shape[:2]
    light, dark = (image[int(0.6 * height), int(share * width)].sum() for share in (0.3, 0.8))
    assert dark < light - 200


def test_a_bubble_s_area_is_its_number() -> None:
    rows = [
        Series("small", [1.0], [0.5], [(0.49, 0.51)], [(0.9, 1.1)], areas=[100.0]),
        Series("large", [30.0], [0.6], [(0.58, 0.62)], [(NAN, NAN)], areas=[400.0]),
    ]
    axes = axes_of(Bubbles(rows, x_label="speed"))
    small, large = (one.get_sizes()[0] for one in axes.collections if hasattr(one, "get_sizes"))
    assert large == pytest.approx(4 * small)
    assert axes.get_xscale() == "log"
    assert {"small\n100", "large\n400"} <= words(axes)


def test_bubbles_with_texts_of_their_own_are_joined_and_named_above() -> None:
    rows = [
        Series("first", [1.0, 30.0], [0.5, 0.9], areas=[100.0, 400.0], texts=["10", "20"]),
        Series("second", [2.0, 20.0], [0.2, 0.3], areas=[100.0, 100.0], texts=["10", "20"]),
    ]
    axes = axes_of(Bubbles(rows))
    assert {"10\n100", "20\n400"} <= words(axes)
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]
    colours = [line.get_color() for line in legend.get_lines()]
    lines = [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    assert [line.get_color() for line in lines] == colours == list(COLOURS[:2])
    assert list(lines[0].get_xdata()) == [1.0, 30.0]


def test_title_note_and_axis_names_are_drawn() -> None:
    def picture(title: str = "t", note: str = "n", x: str = "x", y: str = "y", name: str = "fit") -> bytes:
        lines = Lines([Series(name, [0, 1], [0, 1])], x_label=x, y_label=y, names="above")
        return draw_panels([lines], title=title, note=note).tobytes()

    others = [{"title": "u"}, {"note": "m"}, {"x": "z"}, {"y": "z"}, {"name": "fat"}]
    assert len({picture(), *(picture(**other) for other in others)}) == 6


def test_a_title_and_a_note_of_any_length_end_inside_the_figure() -> None:
    figure = make_figure([EVERY[0]], title="many words " * 40, note="many words " * 40)
    edge = figure.bbox.x1
    ends = [text.get_window_extent().x1 for text in figure.texts]
    assert len(ends) == 2 and all(0.9 * edge < end < edge for end in ends)


def test_zeros_have_no_negative_ticks() -> None:
    axes = axes_of(Lines([Series("", [1, 2], [0.0, 0.0])]))
    low, high = axes.get_ylim()
    assert low < 0 < high
    assert not any(low <= tick < 0 for tick in axes.get_yticks())


def test_values_that_hardly_change_look_flat_and_have_ticks_that_can_be_read() -> None:
    axes = axes_of(Lines([Series("", [1, 2, 3], [0.424233, 0.424193, 0.424193], style="plain")]))
    low, high = axes.get_ylim()
    assert high - low >= 0.01 * 0.4242
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) <= 6
    lower, upper = axes_of(Lines([Series("", [1, 2], [1.0, 1.1])])).get_ylim()
    assert (lower, upper) == pytest.approx((0.994, 1.106))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "values", [[], [3.0], [NAN, NAN], [2.0, 2.0], [1e300, -1e299], [1e-30, 2e-30], [1e9, 1e9 + 1]]
)
def test_any_values_and_names_can_be_drawn(values: list[float]) -> None:
    name = "\0" * 10_000
    series = Series(name, list(range(len(values))), values, [(NAN, NAN)] * len(values))
    across = Series("$a_{", values, values, areas=values)
    panels = [
        Lines([series, across], "<b>\n" * 99, "漢" * 300, "y" * 300, names="ends"),
        Dots([Dot(name, value, (NAN, NAN), [value, math.inf]) for value in values], "p" * 900, "$"),
        Bubbles([across]),
    ]
    image = draw_panels(panels, title="a\nb" * 200, note="$" * 3)
    assert min(image.size) > 700


def test_many_names_leave_room_for_the_plot() -> None:
    names = [Series(f"a line with a long name {number}", [0, 1], [0, number]) for number in range(60)]
    figure = make_figure([Lines(names, names="above")], title="t", note="n")
    assert figure.axes[0].get_position().height > 0.5


def test_x_and_y_of_a_series_are_as_many() -> None:
    with pytest.raises(ValueError, match="fit: 2 x but 3 y"):
        Series("fit", [0, 1], [0, 1, 2])


@pytest.mark.long
def test_a_plot_looks_the_same_whatever_the_settings_of_matplotlib() -> None:
    plain = draw_panels(EVERY[:1]).tobytes()
    with rc_context({"axes.facecolor": "black", "font.size": 30, "text.usetex": True, "axes.grid": True}):
        assert draw_panels(EVERY[:1]).tobytes() == plain


@pytest.mark.long
def test_pyplot_stays_untouched() -> None:
    script = (
        "import sys\n"
        "from attention_lab.viz.plots.panels import Lines, Series\n"
        "from attention_lab.viz.plots import draw_panels\n"
        "assert 'matplotlib' not in sys.modules\n"
        "draw_panels([Lines([Series('a', [1, 2], [1, 2])])])\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
