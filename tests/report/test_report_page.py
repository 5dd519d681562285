"""`stage=report` turns run folders into one HTML file."""

import json
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import make_run as make_folder
from folders import make_sweep
from omegaconf import OmegaConf
from report_pages import page_data
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard import SummaryWriter

from attention_lab.leaderboard import board
from attention_lab.leaderboard.view import View
from attention_lab.report import report_page
from attention_lab.runs.run_folder import find_runs
from attention_lab.tensorboard_plugin import AttentionRecord, write_record
from attention_lab.text_tables import markdown_code, markdown_table

Command = Callable[..., Any]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return make_run(tmp_path / "logs" / "mine")


def make_run(folder: Path) -> Path:
    """A small run folder, like that of a training run."""
    import numpy as np
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("seed: 7\nmodel:\n  layers: 2\n")
    (folder / "metrics.json").write_text('{"test/accuracy": 0.75}')
    events = EventFileWriter(str(folder / "tensorboard"))

    class Log:
        def add_summary(self, summary: Summary, step: int) -> None:
            events.add_event(Event(summary=summary, step=step, wall_time=1.0))

    log = Log()
    for step in (0, 5):
        log.add_summary(Summary(value=[Summary.Value(tag="train/loss", simple_value=1.0 / (1 + step))]), step)
        write_record(
            log,
            "example 1/decoder",
            AttentionRecord(np.full((1, 1, 2), 0.5, np.float32), ["q"], ["a", "b"]),
            step,
        )
    events.close()
    return folder


PREDICTIONS = "source\toutput\treference\tedits"
SAMPLES = [["", "begun", ""], ["sh", "SH OW", "SH"], ["it's", "", " IH T "]]
"""The first is that of a language model which continues an empty text."""


def test_the_name_of_a_folder_cannot_control_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "a\x1b[2J", {"test/accuracy": 0.5})
    monkeypatch.setattr(report_page, "output_folder", lambda given: given[0])
    monkeypatch.setattr(report_page, "choose_view", lambda given: View())
    report_page.report(OmegaConf.create({"run": f"{tmp_path}/*"}))
    monkeypatch.setattr(board, "draw_board", lambda *_: b"")
    board.write_leaderboard(folder, find_runs([folder]), View())
    shown = capsys.readouterr().out
    assert f"Report: {tmp_path}/a\ufffd[2J/report.html" in shown
    assert "a\ufffd[2J/leaderboard.{csv,md,png}" in shown and "\x1b" not in shown


def test_a_run_becomes_one_file(command: Command, run_folder: Path) -> None:
    outcome = command("stage=report", f"run={run_folder}")
    assert outcome.status == 0
    assert outcome.out.startswith(f"Report: {run_folder / 'report.html'}") and "torch" not in outcome.err
    data = page_data(run_folder / "report.html")
    assert data["title"] == "logs/mine"
    (run,) = data["runs"]
    assert run["config"] == {"seed": "7", "model.layers": "2"} and data["comparison"] is None
    (result,) = run["results"]
    assert [result[key] for key in ("metric", "name", "value", "kind")] == [
        *("test/accuracy", "accuracy", "0.7500", "headline")
    ]
    assert run["curves"]["train/loss"] == [[0, 1.0], [5, pytest.approx(1 / 6)]]
    assert data["tags"] == {
        "logs/mine": {"example 1/decoder": {"steps": [0, 5], "input": "", "shape": [1, 1, 2]}}
    }


def test_a_report_goes_into_the_folder_that_is_asked_for(command: Command, run_folder: Path) -> None:
    twice = f"run=[{run_folder},{run_folder}]"
    done = command("stage=report", twice)  # the fixture gives a folder
    assert page_data(done.folder / "report.html")["title"] == "logs/mine"
    assert not (run_folder / "report.html").exists()
    assert command("stage=report", f"run={run_folder}").status == 0
    assert (run_folder / "report.html").is_file()


@pytest.mark.parametrize("name", ["config.yaml", "confusions.tsv", "tensorboard", "events.out.tfevents.1"])
def test_what_is_in_files_outside_is_not_shown(
    command: Command, run_folder: Path, name: str, tmp_path: Path
) -> None:
    (run_folder / name).rename(tmp_path / "outside") if (run_folder / name).exists() else None
    (run_folder / name).symlink_to(tmp_path / "outside")
    done = command("stage=report", f"run={run_folder}")
    assert done.status == 1 and done.err.endswith(
        f"{name} links out of the run's folder: replace it with a copy\n"
    )
    assert not (run_folder / "report.html").exists()


def test_samples_errors_and_the_monitored_metric_are_told(command: Command, run_folder: Path) -> None:
    (run_folder / "config.yaml").write_text("monitor:\n  metric: validation/token_error_rate\n  mode: min\n")
    rate = "test/token_error_rate"
    metrics = {rate: 0.02913, f"{rate}_low": 0.02, f"{rate}_high": 0.04, "test/accuracy": 0.5}
    metrics |= {"test/loss": math.nan, "parameters": 5.0}
    (run_folder / "metrics.json").write_text(json.dumps(metrics))
    rows = [PREDICTIONS, "a\tA\tA\t0", "long\tB B B B\tA A A A\t4", "b\tB B\tA\t2"]
    (run_folder / "predictions.tsv").write_text("\n".join([*rows, "c\\t\tB\tA\t1"]) + "\n")
    (run_folder / "confusions.tsv").write_text("expected and written\ttimes\texample\nA → B\t6\tlong: …\n")
    (run_folder / ".hydra").mkdir()
    (run_folder / ".hydra" / "hydra.yaml").write_text("hydra: {runtime: {choices: {scoring: dot}}}")
    writer = SummaryWriter(str(run_folder / "tensorboard"))
    writer.add_text("samples", "| old |", 0)
    cells = [[markdown_code(text) for text in sample] for sample in SAMPLES]
    writer.add_text("samples", markdown_table(("input", "output", "expected"), cells), 5)
    writer.close()
    assert command("stage=report", f"run={run_folder}").status == 0
    (run,) = page_data(run_folder / "report.html")["runs"]
    assert [one["name"] for one in run["results"]] == ["token error rate", "accuracy", "loss", "parameters"]
    assert [one["kind"] for one in run["results"]] == ["headline", "headline", "more", "more"]
    assert run["results"][0]["interval"] == "0.02000 to 0.04000" and run["config"]["scoring"] == "dot"
    assert run["samples"] == SAMPLES  # each at the place of its example
    assert run["worst"] == [
        ["b", "B B", "A", "2"],
        ["long", "B B B B", "A A A A", "4"],
        ["c\t", "B", "A", "1"],
    ]
    assert run["confusions"] == [["A → B", "6", "long: …"]]


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    "table", ["", "source\toutput\n", "source\toutput\treference\tedits\na\tb\n", "\udcff"]
)
def test_tables_that_are_damaged_are_left_out(command: Command, run_folder: Path, table: str) -> None:
    for name in ("predictions.tsv", "confusions.tsv"):
        (run_folder / name).write_bytes(table.encode("utf-8", "surrogateescape"))
    assert command("stage=report", f"run={run_folder}").status == 0
    (run,) = page_data(run_folder / "report.html")["runs"]
    assert run["worst"] == run["confusions"] == []


def test_several_runs_are_compared_in_one_file(command: Command, run_folder: Path) -> None:
    other = make_run(run_folder.parent / "other")
    outcome = command("stage=report", f"run=[{run_folder},{other}]")
    assert outcome.status == 0
    data = page_data(outcome.folder / "report.html")
    assert [run["name"] for run in data["runs"]] == ["logs/mine", "logs/other"]


@pytest.mark.long
def test_the_runs_below_a_folder_are_compared(command: Command, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    for name in ("0_scoring-dot", "1_scoring-additive"):
        make_run(sweep / name)
    (sweep / "2_scoring-none").mkdir()
    (sweep / "2_scoring-none" / "error.txt").write_text("failed before it started\n")
    (sweep / "leaderboard.csv").write_text("")
    for given in (str(sweep), f"'{sweep}/[01]*'", f"[{sweep},{sweep}/0_scoring-dot]"):
        done = command("stage=report", f"run={given}")
        assert done.status == 0, done.err
        folder = sweep if given == str(sweep) else done.folder
        names = [run["name"] for run in page_data(folder / "report.html")["runs"]]
        assert names == ["sweep/0_scoring-dot", "sweep/1_scoring-additive"]


def test_a_test_is_told_with_the_choices_of_the_run_that_it_tests(command: Command, tmp_path: Path) -> None:
    own = {"model": "seq2seq", "data": "cmudict", "scoring": "additive"}  # Hydra's record: the defaults
    folder = make_folder(tmp_path / "test", stage="test", choices=own, options={"ckpt_path": "run/last.ckpt"})
    trained = {"model": "transformer", "data": "reverse", "scoring": "dot"}
    (folder / "training.yaml").write_text(json.dumps({"choices": trained}))
    assert command("stage=report", f"run={folder}").status == 0
    (run,) = page_data(folder / "report.html")["runs"]
    assert trained.items() <= dict(run["config"]).items()


@pytest.mark.long
def test_a_sweep_is_told_as_its_leaderboard_tells_it(command: Command, tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "sweep_2026", {"dot": [0.1, 0.2], "general": [0.15, 0.2]})
    failed = make_folder(sweep / "failed", overrides=["scoring=cosine", "seed=1"])
    (failed / "error.txt").write_text("no <memory>\n")
    (failed / "config.yaml").unlink()
    overrides = ["data=reverse", "scoring=dot,general,cosine", "notes='a b'"]
    swept = {"overrides": {"task": overrides}, "callbacks": {"comparison": {"title": "Scores", "x": 3}}}
    (sweep / "multirun.yaml").write_text(json.dumps({"hydra": swept}))
    for number, run in enumerate(sorted(sweep.glob("*_*/"))):
        (run / "train.log").write_text(f"2026-01-31 12:0{number}:00 INFO    Python\nmore\n")
    assert command("stage=leaderboard", f"run={sweep}").status == 0
    (sweep / "comparison_<x>.png").write_text("")
    done = command("stage=report", f"run={sweep}")
    assert (done.status, done.err) == (0, "")
    data = page_data(sweep / "report.html")
    assert data["title"] == "Scores" and data["facts"] == "sweep_2026 · 4 runs · 2026-01-31 12:00"
    assert shlex.split(data["command"]) == ["python", "train.py", "-m", *overrides]
    assert [run["name"] for run in data["runs"]] == [
        f"scoring={score} seed={seed}" for score in ("dot", "general") for seed in (1, 2)
    ]
    assert [run["setting"] for run in data["runs"]] == ["scoring=dot"] * 2 + ["scoring=general"] * 2
    compared = data["comparison"]
    assert compared["failures"] == ["1 of 5 runs failed (scoring=cosine seed=1): no <memory>"]
    assert compared["links"] == [f"leaderboard.{kind}" for kind in ("csv", "md", "png")]
    (table,) = compared["tables"]
    markdown = (sweep / "leaderboard.md").read_text()
    assert all(" | ".join(row) in markdown for row in (table["header"], *table["rows"]))
    assert all(text in markdown for text in (*table["summaries"], table["note"]))
    assert (
        table["header"][table["below"]] == "95% interval"
        and table["best"] == [0]
        and table["header"][table["numbers_from"]] == "n"
    )


def test_runs_are_told_with_the_data_by_which_they_are_compared(command: Command, tmp_path: Path) -> None:
    for data in ("copy", "reverse"):
        for scoring in ("dot", "general"):
            choices = {"data": data, "scoring": scoring}
            make_folder(tmp_path / "runs" / data / scoring, {"test/accuracy": 0.5}, choices=choices)
    assert command("stage=report", f"run={tmp_path}/runs").status == 0
    data = page_data(tmp_path / "runs" / "report.html")
    assert [table["name"] for table in data["comparison"]["tables"]] == ["data=copy", "data=reverse"]
    assert [run["data"] for run in data["runs"]] == ["data=copy"] * 2 + ["data=reverse"] * 2
    assert command("stage=report", f"run={tmp_path}/runs/copy").status == 0
    runs = page_data(tmp_path / "runs" / "copy" / "report.html")["runs"]
    assert [run["data"] for run in runs] == ["", ""]


def test_a_setting_is_named_by_options_that_it_has(command: Command, tmp_path: Path) -> None:
    for scoring in ("dot", "general"):
        for seed in (1, 2):
            given = [f"scoring={scoring}", *(["data.length=5"] if scoring == "dot" else [])]
            options = {"data": {"length": 5}} if scoring == "dot" else {}
            folder = tmp_path / "runs" / f"{scoring}_{seed}"
            make_folder(folder, seed=seed, choices={"scoring": scoring}, options=options, overrides=given)
    assert command("stage=report", f"run={tmp_path}/runs").status == 0
    settings = [run["setting"] for run in page_data(tmp_path / "runs" / "report.html")["runs"]]
    assert settings == ["scoring=dot data.length=5"] * 2 + ["scoring=general"] * 2


def test_a_run_without_a_log_still_has_a_report(command: Command, run_folder: Path) -> None:
    for path in (run_folder / "tensorboard").iterdir():
        path.unlink()
    (run_folder / "tensorboard").rmdir()
    (run_folder / "metrics.json").unlink()
    assert command("stage=report", f"run={run_folder}").status == 0
    data = page_data(run_folder / "report.html")
    assert data["tags"] == {} and data["runs"][0]["results"] == [] and data["runs"][0]["curves"] == {}


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "stage=report needs run=<folder of a run or a sweep>"),
        (["run=missing"], "run=missing is not a folder"),
        (["run=logs/mine/tensorboard"], "tensorboard: no runs found; the folder of a run has config.yaml"),
        (["run=[]"], "give the folder of a run or a sweep, or a list of them"),
    ],
)
def test_a_bad_run_folder_is_reported_in_one_line(
    command: Command, run_folder: Path, given: list[str], message: str
) -> None:
    outcome = command("stage=report", *given)
    assert outcome.status == 1
    assert message in outcome.err and outcome.err.count("\n") == 1
