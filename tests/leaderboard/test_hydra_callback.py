"""The comparison after a sweep: its numbers, its files, and the jobs that failed."""

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from folders import RATE, make_run
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import OmegaConf
from scipy import stats

from attention_lab.errors import LabError
from attention_lab.files.run_files import METRICS
from attention_lab.leaderboard import hydra_callback
from attention_lab.leaderboard.hydra_callback import LeaderboardCallback
from attention_lab.leaderboard.plots import axes_panel
from attention_lab.leaderboard.settings import group_runs, headlines, varied_options
from attention_lab.leaderboard.significance import Estimate, estimate
from attention_lab.leaderboard.tables import TWO_SEEDS
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import Job, find_runs
from attention_lab.text_tables import number
from attention_lab.viz.plots import make_figure

REPOSITORY = Path(__file__).parents[2]
NW = ["-m", "model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none"]


def test_an_interval_worked_out_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found == Estimate(3, 2.0, 1.0, pytest.approx(4.30265 / math.sqrt(3), rel=1e-5))


@pytest.mark.parametrize("values", [[0.5, 0.7], [0.91, 0.88, 0.93, 0.9, 0.9], [1e6, 1e6 + 1, 1e6 + 3]])
def test_an_interval_is_that_of_student(values: list[float]) -> None:
    n, mean, sd, half = estimate(values)
    low, high = stats.t.interval(0.95, n - 1, loc=sum(values) / n, scale=stats.sem(values))
    assert sd == pytest.approx(stats.tstd(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_one_value_has_no_interval_and_a_diverged_one_no_mean() -> None:
    assert estimate([0.25])[:2] == (1, 0.25)
    assert math.isnan(estimate([0.25]).sd) and math.isnan(estimate([0.25]).half)
    assert math.isnan(estimate([0.25, math.nan]).mean)


def _job(number: int, metrics: dict[str, float], **overrides: object) -> Job:
    config = OmegaConf.create({"seed": 1, "monitor": {"metric": None, "mode": "max"}, "data": {}})
    for key, value in overrides.items():
        OmegaConf.update(config, key.replace("__", "."), value)
    given = {key.replace("__", "."): str(value) for key, value in overrides.items()}
    plain = OmegaConf.to_container(config)
    choices = {"model": given.get("model", "nw")}
    return Job(Path(str(number)), given, choices, plain, metrics, None, str(plain["seed"]))


def test_jobs_that_differ_in_more_than_the_seed_are_not_averaged() -> None:
    jobs = [
        _job(number, {"test/mse": float(number)}, model=model, data__size=size, seed=seed)
        for number, (model, size, seed) in enumerate(
            (model, size, seed) for model in ("a", "b") for size in (10, 20) for seed in (1, 2, 3)
        )
    ]
    assert varied_options(jobs) == ["model", "data.size"]
    rows = group_runs(jobs, varied_options(jobs))
    assert [(*row.options.values(), len(row.jobs)) for row in rows] == [
        ("a", 10, 3), ("a", 20, 3), ("b", 10, 3), ("b", 20, 3)
    ]  # fmt: skip
    assert [row.estimate("test/mse") for row in rows] == [estimate([x, x + 1, x + 2]) for x in (0, 3, 6, 9)]
    assert rows[0].estimate("test/other").n == 0


def test_trials_of_a_search_are_named_by_the_values_they_try() -> None:
    studies = [("a", 3, "tpe"), ("a", 9, "tpe"), ("b", 9, "random")]
    jobs = [
        _job(n, {"test/mse": 1.0}, **{"sweep/sampler": sampler}, model__size=n, sweep__trial=n,
             sweep__study=study, sweep__trials=trials, sweep__storage=f"postgresql://me:secret@host/{study}")
        for n, (study, trials, sampler) in enumerate(studies)
    ]  # fmt: skip
    assert varied_options(jobs) == ["model.size"]


@pytest.mark.parametrize("x", ["data.size", "fit/steps_per_second"])
def test_the_intervals_of_the_picture_are_those_of_the_table(x: str) -> None:
    """An accuracy is at most 1, a speed at least 0."""
    jobs = [
        _job(n, {"test/accuracy": y, "fit/steps_per_second": s}, data__size=size, seed=n)
        for n, (size, y, s) in enumerate([(10, 0.9, 1.0), (10, 1.0, 30.0), (20, 0.99, 5.0), (20, 1.0, 5.1)])
    ]
    rows = group_runs(jobs, ["data.size"])
    panel, _ = axes_panel(rows, View(x, "test/accuracy"))
    (axes,) = make_figure([panel]).axes
    bars = [bar for one in axes.containers for lines in one[2] for bar in lines.get_segments()]
    found = sorted(tuple(bar[:, 1]) for bar in bars if bar[0, 1] != bar[1, 1])
    assert np.allclose(found, sorted(row.interval("test/accuracy") for row in rows))
    assert max(max(one) for one in found) == 1.0
    across = sorted(tuple(bar[:, 0]) for bar in bars if bar[0, 0] != bar[1, 0])
    if x == "fit/steps_per_second":
        assert np.allclose(across, sorted(row.interval(x) for row in rows))
        assert across[0][0] == 0.0


def test_the_headline_is_that_of_the_monitored_metric() -> None:
    metrics = {"test/loss": 1.0, "test/a_rate": 2.0, "test/b_rate": 3.0, "fit/seconds": 1.0}
    assert headlines([_job(0, metrics)]) == ["test/a_rate", "test/b_rate"]
    assert headlines([_job(0, metrics, monitor__metric="validation/b_rate")]) == [
        "test/b_rate",
        "test/a_rate",
    ]
    assert headlines([_job(0, {"test/mass/head_1": 1.0, "test/mass": 1.0})]) == ["test/mass"]
    assert headlines([_job(0, {f"test/{letter}": 1.0 for letter in "fedcba"})])[-1] == "test/d"
    assert headlines([_job(0, {"test/loss": 1.0, "fit/seconds": 1.0})]) == ["test/loss"]
    assert headlines([_job(0, {"error": 1.0})]) == ["error"]
    untested = {"fit/seconds": 1.0, "parameters": 9.0, "train/loss": 2.0, "validation/loss": 2.0}
    validated = untested | {"validation/f1": 0.5}
    assert headlines([_job(0, validated, monitor__metric="validation/f1")])[0] == "validation/f1"
    assert headlines([_job(0, validated)])[:2] == ["validation/f1", "validation/loss"]


def test_numbers() -> None:
    shown = [number(value) for value in (0.91234, 0.5, 12345.6, 101322.0, 3.0, 1e-5)]
    assert shown == ["0.9123", "0.5000", "12,346", "101,322", "3", "1.000e-05"]


@pytest.mark.long
def test_a_sweep_ends_in_a_table_and_goes_on_after_a_failed_job(command) -> None:
    done = command(*NW, "scoring=gaussian,additive", "seed=1,2", "trainer.devices=1,0")
    assert done.status == 1
    (error,) = done.err.splitlines()
    assert error.startswith("Error: 4 of 8 jobs failed: trainer.devices=0: choose")
    assert "choose" not in done.out
    assert "Results" not in done.out
    lines = done.out.splitlines()
    assert lines[0] == f"Sweep: {done.folder}"
    assert lines[1].startswith("1/8  scoring=gaussian seed=1 trainer.devices=1  mse 0.")
    assert lines[2] == "2/8  scoring=gaussian seed=1 trainer.devices=0  failed"
    table = list(csv.DictReader((done.folder / "leaderboard.csv").read_text().splitlines()))
    # The kernel is better than a network of random weights, and so comes first.
    assert [(row["scoring"], row["n"]) for row in table] == [("gaussian", "2"), ("additive", "2")]
    for row in table:
        jobs = done.folder.glob(f"*scoring-{row['scoring']}*/metrics.json")
        values = [json.loads(job.read_text())["test/mse"] for job in jobs]
        found = estimate(values)
        assert float(row["test/mse"]) == pytest.approx(found.mean)
        assert float(row["test/mse sd"]) == pytest.approx(found.sd)
        assert float(row["test/mse high"]) == pytest.approx(found.mean + found.half)
    markdown = (done.folder / "leaderboard.md").read_text()
    assert "| gaussian | 2 |" in markdown
    assert markdown.count("- 4 failed: `trainer.devices=0: choose") == 1
    assert "    - `scoring=additive seed=2 trainer.devices=0` in `7_scoring-additive" in markdown
    assert markdown.count(TWO_SEEDS) == done.out.count(TWO_SEEDS) == 1
    assert not (done.folder / "comparison.png").exists()
    assert [job.error is None for job in find_runs([done.folder])] == [True, False] * 4


@pytest.mark.slow
def test_a_failed_job_of_a_stage_without_metrics_fails_the_sweep(command) -> None:
    done = command("-m", "experiment=scaling", "theorem.sizes=[4,256]", "theorem.draws=200,1")
    assert done.status == 1
    (error,) = done.err.splitlines()
    assert error.startswith("Error: 1 of 2 jobs failed (") and "theorem.draws=1)" in error
    assert error.endswith("): theorem.keys=32, theorem.draws=1: each must be at least 2")


@pytest.mark.slow
def test_a_failed_job_that_is_mended_fails_no_more(command, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    name = "hydra.sweep.subdir=${seed}"
    broken = command(*NW, "seed=1,2", "trainer.devices=0", name, folder=folder)
    assert broken.status == 1 and broken.err.startswith("Error: 2 of 2 jobs failed: trainer.devices=0: ")
    assert "Leaderboard" not in broken.out and not list(folder.glob("leaderboard*"))
    done = command(*NW, "seed=1,2", name, folder=folder)
    assert (done.status, done.err) == (0, "")
    assert "failed:" not in done.out


@pytest.mark.long
def test_an_unforeseen_error_keeps_its_traceback(command, monkeypatch) -> None:
    from attention_lab.experiment.stages import fit

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(fit, "make_task", broken)
    done = command(*NW, "seed=1,2")
    assert done.status == 1
    assert "Traceback" not in done.out + done.err
    (first, *_) = sorted(done.folder.glob("*/error.txt"))
    reason, *rest = first.read_text().splitlines()
    assert reason == "ZeroDivisionError: by nothing"
    assert rest[0].startswith("Traceback")


@pytest.mark.slow
def test_a_sweep_with_axes_draws_a_picture(command) -> None:
    compare = "hydra.callbacks.comparison"
    axes = [f"{compare}.x=data.train_size", f"{compare}.y=test/mse", f"{compare}.group=scoring"]
    done = command(*NW, "scoring=gaussian,boxcar", "data.train_size=20,50", *axes, f"{compare}.title=Kernels")
    assert (done.status, done.err) == (0, "")
    assert "Kernels" in done.out
    picture = (done.folder / "comparison.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    bubbles = [f"{compare}.x=fit/steps", f"{compare}.y=test/mse", f"{compare}.group=scoring"]
    again = command(*NW, "scoring=gaussian,boxcar", *bubbles, f"{compare}.size=fit/seconds")
    assert (again.folder / "comparison.png").read_bytes() != picture


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["x=scoring"], "x needs y"),
        (["title=[Kernels]"], "title must be text"),
        (["x=data.trainsize", "y=test/mse"], "data.trainsize is not an option, a group or a metric"),
        (["x=scoring", "y=test/accuracy"], "no job has the metric test/accuracy: choose fit/"),
    ],
)
def test_a_wrong_column_is_named_in_one_line(options: list[str], said: str, command) -> None:
    done = command(*NW, "seed=1,2", *(f"hydra.callbacks.comparison.{option}" for option in options))
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert line.startswith("Error: hydra.callbacks.comparison") and said in line
    assert "Traceback" not in done.out


def test_runs_are_compared_without_a_view(command, tmp_path: Path) -> None:
    done = command(
        "stage=leaderboard", f"run={make_run(tmp_path / 'a', {RATE: 0.3})}", "~hydra.callbacks.comparison"
    )
    assert done.status == 0, done.err


@pytest.mark.long
def test_a_run_alone_is_told_in_full_and_measured(command) -> None:
    done = command("model=nw", "trainer.max_epochs=4")
    assert "Results" in done.out and "Samples" in done.out
    metrics = json.loads((done.folder / "metrics.json").read_text())
    assert metrics["fit/steps_per_second"] > 4 / metrics["fit/seconds"]
    assert (done.folder / "attention").is_dir()


def test_a_comparison_needs_no_torch() -> None:
    script = "import sys, attention_lab.leaderboard.hydra_callback; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=False).returncode == 0


@pytest.mark.slow
def test_pictures_can_be_left_out(command) -> None:
    done = command("model=nw", "trainer.max_epochs=1", "pictures=0")
    assert done.status == 0
    assert not (done.folder / "attention").exists()
    assert command("model=nw", "pictures=-1").err == "Error: pictures=-1: choose 0 or more\n"


def test_a_job_whose_failure_cannot_be_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a full disk: Hydra would print a warning, and the line of the job would have no end."""
    (tmp_path / "file").touch()
    runtime = {"output_dir": str(tmp_path / "file" / "job")}
    config = OmegaConf.create({"hydra": {"mode": RunMode.MULTIRUN, "runtime": runtime}})
    job = JobReturn(status=JobStatus.FAILED)
    job.return_value = LabError("wrong")
    LeaderboardCallback().on_job_end(config, job)
    assert "failed: cannot write " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("resume", "stage", "kept"), [("auto", "fit", True), ("auto", "test", False), (None, "fit", False)]
)
def test_only_a_repeated_sweep_keeps_the_results_of_its_jobs(
    resume: str | None, stage: str, kept: bool, tmp_path: Path
) -> None:
    """A sweep of tests has no finished jobs: what it finds may be of another checkpoint."""
    make_run(tmp_path, {RATE: 0.5})
    runtime, launcher = {"output_dir": str(tmp_path)}, {"_target_": "hydra.BasicLauncher"}
    hydra = {"mode": RunMode.MULTIRUN, "runtime": runtime, "job": {"num": 0}, "launcher": launcher}
    config = OmegaConf.create({"hydra": hydra, "resume": resume, "stage": stage})
    LeaderboardCallback().on_job_start(config, task_function=lambda config: None)
    assert (tmp_path / METRICS).exists() == kept


@pytest.mark.parametrize("submitit", [True, False])
def test_a_sweep_whose_jobs_print_to_files_says_which(
    submitit: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hydra_callback, "sweep_overrides", lambda config: [])
    launcher = {"submitit_folder": "${hydra.sweep.dir}/.submitit/%j"} if submitit else {}
    hydra = {"sweep": {"dir": "logs/sweep"}, "launcher": launcher, "sweeper": {"_target_": ".BasicSweeper"}}
    config = OmegaConf.create({"hydra": hydra})
    LeaderboardCallback().on_multirun_start(config)
    line = "Output of its jobs: logs/sweep/.submitit/*/*_log.out\n" if submitit else ""
    assert capsys.readouterr().out == f"Sweep: logs/sweep\n{line}"
