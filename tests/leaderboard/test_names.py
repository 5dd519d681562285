"""What settings are called in tables and pictures."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from folders import make_run

from attention_lab.leaderboard.plots import board_panels
from attention_lab.leaderboard.ranking import Block, rank
from attention_lab.leaderboard.settings import Setting
from attention_lab.leaderboard.tables import Section
from attention_lab.runs.run_folder import Job

Command = Callable[..., Any]


def test_the_only_setting_of_a_data_set_has_a_name(command: Command, tmp_path: Path) -> None:
    for seed in (1, 2):
        choices = {"data": "karate", "model": "graph", "scoring": "additive"}
        make_run(tmp_path / "runs" / f"{seed}", {"test/accuracy": 0.5}, seed=seed, choices=choices)
    choices = {"model": "nw", "scoring": "gaussian", "window": "band", "pooling": "soft"}
    make_run(tmp_path / "runs" / "nw", {"test/mse": 0.5}, choices=choices, overrides=["window=band"])
    done = command("stage=leaderboard", f"run={tmp_path}/runs")
    assert (done.status, done.err) == (0, "")
    lines = (tmp_path / "runs" / "leaderboard.md").read_text().splitlines()
    assert [line.split(" | ")[:4] for line in lines if re.match(r"\| \w", line)] == [
        ["| model", "scoring", "n", "accuracy"],
        ["| graph", "additive", "2", "0.5000 ± 0.0000"],
        ["| model", "scoring", "window", "n"],
        ["| nw", "gaussian", "band", "1"],
    ]
    assert "best by" not in done.out


def _block(*options: Mapping[str, Any], shared: Mapping[str, Any] | None = None) -> Block:
    """The settings with these options, which all have the same result."""
    job = Job(Path(), {}, {}, {}, {"y": 1.0}, None, "1")
    return rank([Setting(one, [job]) for one in options], "y", False, shared or {})


def _names(*options: Mapping[str, Any], shared: Mapping[str, Any] | None = None) -> list[str]:
    """What rows of a picture are called."""
    block = _block(*options, shared=shared)
    ((panel,), _) = board_panels([Section("", [], ["y"], [block])])
    return [row.name for row in panel.rows]


def test_rows_of_a_picture_say_what_their_values_are() -> None:
    assert _names({"task.beam_size": 5}, {"task.beam_size": 1}) == ["task.beam_size=5", "task.beam_size=1"]
    assert _names({"allow": "all"}, {"allow": None}) == ["allow=all", "allow=null"]
    assert _names({"scoring": "dot"}, {"scoring": "general"}) == ["dot", "general"]
    assert _names({"model": "nw", "scoring": "dot"}) == ["model=nw scoring=dot"]
    assert _names({"size": 1, "scoring": "dot"}, shared={"size": 1}) == ["scoring=dot"]
    assert _names({"size": 1}, shared={"size": 1}) == ["all runs"]


def test_rows_whose_names_would_be_cut_off_say_their_values_alone() -> None:
    options = [{"trainer.max_epochs": 2, "data.train_size": size, "scoring": "dot"} for size in (10, 20)]
    scores = [{**options[0], "scoring": score} for score in ("scaled_dot", "general")]
    ((panel,), _) = board_panels([Section("data=copy", [], ["y"], [_block(*options, *scores)])])
    assert [row.name for row in panel.rows] == ["10 · dot", "20 · dot", "10 · scaled_dot", "10 · general"]
    assert (panel.title, panel.heading) == ("data=copy", "train size · scoring")
