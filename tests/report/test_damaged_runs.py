"""Reports of runs whose options or metrics are damaged."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run
from report_pages import page_data

DAMAGED = pytest.mark.parametrize(
    ("name", "text"),
    [("metrics.json", "{"), ("metrics.json", "[1]"), ("config.yaml", "a: ["), ("config.yaml", "- 1")],
)


@pytest.mark.sampled(2, rest="long")
@DAMAGED
def test_a_damaged_file_is_named(command: Callable[..., Any], tmp_path: Path, name: str, text: str) -> None:
    folder = make_run(tmp_path / "mine", {RATE: 0.2})
    (folder / name).write_text(text)
    outcome = command("stage=report", f"run={folder}")
    assert outcome.status == 1 and str(folder / name) in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.sampled(2, rest="long")
@DAMAGED
def test_a_damaged_run_among_others_is_named_in_their_report(
    command: Callable[..., Any], tmp_path: Path, name: str, text: str
) -> None:
    for run in ("one", "two", "three"):
        make_run(tmp_path / "logs" / run, {RATE: 0.2})
    (tmp_path / "logs" / "two" / name).write_text(text)
    outcome = command("stage=report", f"run={tmp_path}/logs")
    assert outcome.status == 0, outcome.err
    page = page_data(tmp_path / "logs" / "report.html")
    (line,) = page["comparison"]["failures"]
    assert name in line and len(page["runs"]) == 3


def test_a_damaged_run_that_was_predicted_with_is_named(command: Callable[..., Any], tmp_path: Path) -> None:
    for run in ("one", "two", "three"):
        make_run(tmp_path / "logs" / run, {RATE: 0.2})
    two = tmp_path / "logs" / "two"
    (two / ".hydra" / "config.yaml").write_text("stage: predict")  # in the run's own folder
    (two / "config.yaml").write_text("a: [")
    outcome = command("stage=report", f"run={tmp_path}/logs")
    assert outcome.status == 0, outcome.err
    (line,) = page_data(tmp_path / "logs" / "report.html")["comparison"]["failures"]
    assert line.startswith("1 of 3 runs failed (two): config.yaml cannot be read: ")


def test_a_pipe_in_the_place_of_metrics_stops_no_report(command: Callable[..., Any], tmp_path: Path) -> None:
    for run in ("one", "two", "three"):
        make_run(tmp_path / "logs" / run, {RATE: 0.2})
    metrics = tmp_path / "logs" / "two" / "metrics.json"
    metrics.unlink()
    os.mkfifo(metrics)
    outcome = command("stage=report", f"run={tmp_path}/logs")
    assert outcome.status == 0, outcome.err
    assert "metrics.json" in page_data(tmp_path / "logs" / "report.html")["comparison"]["failures"][0]


def test_runs_with_very_many_numbers_together_are_rejected(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("one", "two"):
        make_run(tmp_path / "logs" / run, {f"test/{number}": 0.2 for number in range(60)})
    monkeypatch.setattr("attention_lab.report.report_page.MOST_VALUES", 100)
    outcome = command("stage=report", f"run={tmp_path}/logs")
    assert outcome.status == 1
    assert outcome.err.startswith("Error: the runs have more than 100 metrics and options together: ")
    assert command("stage=report", f"run={tmp_path}/logs/one").status == 0
