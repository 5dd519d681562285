"""The pictures of a leaderboard: which settings stand where, whatever the numbers and names."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from folders import make_sweep

from attention_lab.leaderboard.board import make_section
from attention_lab.leaderboard.plots import axes_panel, board_panels, draw_axes, draw_board
from attention_lab.leaderboard.ranking import Block, rank
from attention_lab.leaderboard.settings import Setting
from attention_lab.leaderboard.tables import Section, count
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import Job
from attention_lab.viz.plots import make_figure
from attention_lab.viz.plots.panels import Bubbles, Lines

NAN = math.nan


def setting(options: dict[str, object], *runs: dict[str, float]) -> Setting:
    """A setting with a run of each seed."""
    config = {"seed": 1, "monitor": {"metric": None, "mode": "max"}}
    return Setting(
        options,
        [
            Job(Path(str(seed)), {}, {"model": "nw"}, config, dict(run), None, str(seed))
            for seed, run in enumerate(runs, start=1)
        ],
    )


def section(name: str, count: int) -> Section:
    cells = [setting({"size": i}, *({"test/mse": i + seed / 10} for seed in (1, 2, 3))) for i in range(count)]
    block: Block = rank(cells, "test/mse", False, {"data": "a|b"})
    return Section(name, ["size"], ["test/mse"], [block], set())


def test_every_setting_has_its_mean_interval_seeds_and_verdict() -> None:
    (panel,), note = board_panels([section("a section", 3)])
    assert panel.title == "a section · data=a|b"
    assert panel.x_label == "mse (lower is better)"
    first, *others = panel.rows
    assert first.value == pytest.approx(0.2) and first.points == pytest.approx([0.1, 0.2, 0.3])
    assert first.interval[0] < 0.2 < first.interval[1]
    assert panel.groups[first.group] == "best"
    assert [panel.groups[one.group] for one in others] == ["worse", "worse"]
    assert note == "mean and 95% interval; rings: seeds"
    (alone,), note = board_panels(
        [Section("", ["size"], ["y"], [rank([setting({}, {"y": 1.0})], "y", False, {})])]
    )
    assert (list(alone.rows[0].points), note) == ([], "one run each")
    assert draw_board("Scores", [section("", 3)]).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("metric", "value"),
    [("test/token_error_rate", 0.0), ("test/accuracy", 1.0), ("test/sequence_error_rate", 0.0)],
)
def test_equal_settings_have_an_axis_without_impossible_values(metric: str, value: float) -> None:
    block = rank([setting({"size": i}, *[{metric: value}] * 3) for i in range(2)], metric, value > 0, {})
    (axes,) = make_figure(board_panels([Section("", ["size"], [metric], [block])])[0]).axes
    low, high = axes.get_xlim()
    shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert low < value < high and len(shown) > 1 and min(shown) >= 0 and max(shown) <= 1


def test_the_title_counts_settings_and_runs() -> None:
    assert count([section("", 3)]) == "3 settings, 9 runs"
    assert count([section("a", 1), section("b", 2)]) == "3 settings, 9 runs"
    single = rank([setting({"size": i}, {"test/mse": 1.0}) for i in range(2)], "test/mse", False, {})
    assert count([Section("", ["size"], ["test/mse"], [single])]) == "2 runs"


def test_too_many_settings_are_counted() -> None:
    panels, note = board_panels([section(name, 60) for name in "abcde"])
    assert [len(panel.rows) for panel in panels] == [40, 40, 40]
    assert note.endswith("; 180 more settings are in the table")


def test_the_axis_is_as_wide_as_the_intervals_of_two_seeds() -> None:
    found = rank([setting({"size": 1}, {"test/mse": 0.99}, {"test/mse": 1.01})], "test/mse", False, {})
    (panel,), _ = board_panels([Section("", ["size"], ["test/mse"], [found])])
    low, high = make_figure([panel]).axes[0].get_xlim()
    start, end = panel.rows[0].interval
    assert low < start < 0.9 and 1.1 < end < high


def test_lines_over_numbers_are_in_order_and_logarithmic_over_a_factor_of_ten() -> None:
    cells = [setting({"scoring": "dot", "size": size}, {"y": float(size)}) for size in (1000, 10, 100)]
    panel, note = axes_panel(cells, View("size", "y", group="scoring"))
    assert isinstance(panel, Lines)
    (row,) = panel.series
    assert (row.name, row.x, row.y) == ("dot", [10, 100, 1000], [10.0, 100.0, 1000.0])
    assert (panel.log_x, panel.ticks, note) == (True, [10, 100, 1000], "one run each")
    near, _ = axes_panel(cells[1:], View("size", "y"))
    assert isinstance(near, Lines) and near.log_x
    for sizes, log in (((1, 2, 9), False), ((0, 1, 20), False), ((-1, 1, 20), False), ((0.1, 1.0), True)):
        panel, _ = axes_panel([setting({"size": size}, {"y": 1.0}) for size in sizes], View("size", "y"))
        assert isinstance(panel, Lines) and panel.log_x == log
    for number, shown in ((12, 12), (13, 0)):
        panel, _ = axes_panel(
            [setting({"size": size}, {"y": 1.0}) for size in range(number)], View("size", "y")
        )
        assert isinstance(panel, Lines) and len(panel.ticks) == shown


@pytest.mark.parametrize("metric", ["test/accuracy", "test/mse"])
def test_of_too_many_lines_or_bubbles_the_best_are_drawn(metric: str) -> None:
    cells = [
        setting({"dropout": number, "size": size}, {metric: (number * 7 % 200) / 200, "speed/s": 1.0})
        for number in range(200)
        for size in (1, 2)
    ]
    best = set(range(200)[-16:]) if metric == "test/accuracy" else set(range(16))
    panel, note = axes_panel(cells, View("size", metric))
    assert isinstance(panel, Lines) and [list(line.x) for line in panel.series] == [[1, 2]] * 16
    assert {round(200 * float(line.y[0])) for line in panel.series} == best
    names = [int(line.name) for line in panel.series]
    assert names == sorted(names)  # in the order of the runs
    assert note == "one run each; 368 more settings are in the table"
    bubbles, note = axes_panel(cells, View("speed/s", metric))
    assert isinstance(bubbles, Bubbles) and len(bubbles.series) == 120
    assert note == "one run each; 280 more settings are in the table"


def test_lines_without_a_value_are_left_out_first() -> None:
    cells = [setting({"dropout": number, "size": 1}, {"y": NAN if number else 1.0}) for number in range(20)]
    panel, _ = axes_panel(cells[::-1], View("size", "y"))
    assert panel.series[-1].name == "0" and len(panel.series) == 16


def test_categories_keep_their_order() -> None:
    cells = [setting({"scoring": name}, {"y": 1.0}, {"y": 2.0}) for name in ("z", "a", "m")]
    panel, note = axes_panel(cells, View("scoring", "y"))
    assert isinstance(panel, Lines) and panel.series[0].x == ["z", "a", "m"]
    assert (panel.log_x, list(panel.ticks), note) == (False, [], "mean and 95% interval over 2 seeds")
    assert draw_axes(cells, View("scoring", "y"), "Title").startswith(b"\x89PNG")


def test_the_note_says_over_how_many_seeds_the_means_are() -> None:
    runs = [{"y": 1.0}, {"y": 2.0}, {"y": 4.0}]
    cells = [setting({"size": size}, *runs[:count]) for size, count in enumerate((3, 2, 0))]
    _, note = axes_panel(cells, View("size", "y"))
    assert note == "mean and 95% interval over 2 to 3 seeds"


def test_bubbles_of_one_group_are_joined() -> None:
    speeds = {("linear", 10): 9.0, ("linear", 20): 8.0, ("band", 10): 7.0}
    found = [
        setting({"mechanism": name, "data.length": length}, {"test/accuracy": 1.0, "speed/s": speed})
        for (name, length), speed in speeds.items()
    ]
    panel, note = axes_panel(found, View("speed/s", "test/accuracy", group="mechanism"))
    assert isinstance(panel, Bubbles)
    assert [(row.name, row.x, row.texts) for row in panel.series] == [
        ("linear", [9.0, 8.0], ["10", "20"]),
        ("band", [7.0], ["10"]),
    ]
    assert note == "one run each; beside each bubble: length"
    _, note = axes_panel(found, View("speed/s", "test/accuracy", size="memory", group="mechanism"))
    assert note.endswith("; area and number: memory")


def test_a_negative_size_is_no_area() -> None:
    found = [setting({"mechanism": "band"}, {"test/r2": 0.5, "speed/s": 1.0, "test/log_likelihood": -3.0})]
    for more in ([], [setting({"mechanism": "dot"}, {"test/r2": 0.4, "speed/s": 2.0})]):
        view = View("speed/s", "test/r2", size="test/log_likelihood", group="mechanism")
        assert draw_axes([*found, *more], view, "t").startswith(b"\x89PNG")
    mixed = [*found, setting({"mechanism": "dot"}, {**found[0].jobs[0].metrics, "test/log_likelihood": 2.0})]
    assert draw_axes(mixed, view, "t").startswith(b"\x89PNG")


def test_the_table_has_the_metrics_of_both_axes() -> None:
    found = setting({"size": 1}, {"test/accuracy": 1.0, "test/loss": 2.0, "speed/s": 3.0, "parameters": 4.0})
    bubbles = make_section("", found.jobs, View("speed/s", "test/accuracy"))
    assert bubbles.metrics == ["test/accuracy", "parameters", "speed/s"]
    assert make_section("", found.jobs, View("size", "test/loss")).metrics == ["test/loss", "parameters"]


def test_options_are_named_in_words() -> None:
    cells = [setting({"data.train_size": size}, {"y": 1.0}) for size in (1, 2)]
    assert axes_panel(cells, View("data.train_size", "test/accuracy"))[0].x_label == "train size"


@pytest.mark.slow
def test_matplotlib_lists_the_fonts_of_a_new_machine_silently(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "sweep", {"dot": [0.1, 0.2], "general": [0.2, 0.3]})
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[2] / "train.py"), "stage=leaderboard", f"run={folder}"],
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path / "new")},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert list((tmp_path / "new").glob("fontlist*.json"))
    assert "fontManager" not in done.stdout and not done.stderr
