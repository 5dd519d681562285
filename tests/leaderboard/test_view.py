"""The options of `hydra.callbacks.comparison`: what the leaderboard shows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run, make_sweep, read_table

from attention_lab.files.run_files import SWEEP

Command = Callable[..., Any]
RATES = {"dot": [0.10, 0.11, 0.12], "general": [0.11, 0.10, 0.125], "constant": [0.7, 0.71, 0.72]}


@pytest.mark.long
def test_the_view_of_a_sweep_is_kept_when_it_is_compared_again(command: Command, tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "sweep", RATES)
    options = {"title": "Scores", "x": None, "y": None, "also": ["parameters"], "size": ["damaged"]}
    swept = {"hydra": {"callbacks": {"comparison": {"_target_": "os.system", **options}}}}
    (folder / SWEEP).write_text(json.dumps(swept))
    assert command("stage=leaderboard", f"run={folder}").out.startswith("Scores")
    titled = command("stage=leaderboard", f"run={folder}", "hydra.callbacks.comparison.title=Mine")
    assert titled.out.startswith("Mine")


@pytest.mark.long
def test_a_single_metric_more_needs_no_list(command: Command, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", {RATE: 0.1, "fit/epochs": 7.0})
    for also in ("fit/epochs", "[fit/epochs]"):
        done = command("stage=leaderboard", f"run={folder}", f"hydra.callbacks.comparison.also={also}")
        assert done.status == 0, done.err
        assert [row["fit/epochs"] for row in read_table(folder / "leaderboard.csv")] == ["7.0"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("hydra.callbacks.comparison.y=test/no", ": no job has the metric test/no: choose"),
        ("+hydra.callbacks.comparison.z=1", ".z is unknown: choose x"),
        ("+hydra.callbacks.comparison.z=null", ".z is unknown: choose x"),
        ("hydra.callbacks.comparison.title=2", ".title must be text"),
        ("hydra.callbacks.comparison.also=[[a]]", ".also must be a list of metrics, as in [fit/seconds]"),
        (
            "hydra.callbacks.comparison.group=model.typo",
            ": model.typo is not an option, a group or a metric of these runs",
        ),
    ],
)
def test_a_wrong_option_is_said_in_one_line(option: str, said: str, command: Command, tmp_path: Path) -> None:
    done = command("stage=leaderboard", f"run={make_run(tmp_path / 'run', {RATE: 0.1})}", option)
    assert done.status == 1
    assert done.err.startswith(f"Error: hydra.callbacks.comparison{said}") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"x": "seed", "y": "test/no"}, "no job has the metric test/no: choose"),
        ({"x": "no", "y": RATE}, "no is not an option, a group or a metric of these runs"),
    ],
)
def test_the_wrong_view_of_a_sweep_is_blamed_on_its_file(
    options: dict[str, str], said: str, command: Command, tmp_path: Path
) -> None:
    """The user has given no such option."""
    folder = make_sweep(tmp_path / "sweep", RATES)
    (folder / SWEEP).write_text(json.dumps({"hydra": {"callbacks": {"comparison": options}}}))
    done = command("stage=leaderboard", f"run={folder}")
    assert done.status == 1
    assert done.err.startswith(f"Error: multirun.yaml of the sweep: hydra.callbacks.comparison: {said}")


def test_runs_too_short_to_measure_their_speed_are_compared_without_the_picture(
    command: Command, tmp_path: Path
) -> None:
    """As in experiment=efficiency with few epochs: the sweep ended without a leaderboard."""
    folder = make_sweep(tmp_path / "sweep", RATES)
    for path in folder.glob("*/metrics.json"):
        measured = json.loads(path.read_text())
        del measured["fit/steps_per_second"]
        path.write_text(json.dumps(measured))
    options = {"x": "fit/steps_per_second", "y": RATE, "group": "scoring", "size": "fit/peak_memory_mb"}
    (folder / SWEEP).write_text(json.dumps({"hydra": {"callbacks": {"comparison": options}}}))
    done = command("stage=leaderboard", f"run={folder}")
    assert (done.status, done.err) == (0, "")
    assert "Comparison: not drawn: no run was long enough to measure fit/steps_per_second" in done.out
    assert len(read_table(folder / "leaderboard.csv")) == len(RATES)
    assert not list(folder.glob("comparison*"))
