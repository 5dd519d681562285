"""A job that its queue has ended is a failed job of the sweep, with a reason."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from attention_lab.leaderboard import queued_jobs
from attention_lab.leaderboard.queued_jobs import count_lost_jobs_as_failed
from attention_lab.runs.recorded_failures import read_failure, record_failure

slurm = pytest.importorskip("submitit.slurm.slurm")
core = pytest.importorskip("submitit.core.core")
utils = pytest.importorskip("submitit.core.utils")


def _load_sweep_config(config: str, options: list[str]) -> Any:
    return OmegaConf.create(
        {"hydra": {"job": {}, "sweep": {"dir": config, "subdir": "${hydra.job.num}_" + options[0]}}}
    )


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The second job of a sweep in the test's folder, which has no result."""

    def no_results(job: Any) -> None:
        raise utils.UncompletedJobError("a log of many lines")

    monkeypatch.setattr(core.Job, "results", no_results)
    for kind, method in ((slurm.SlurmJob, "wait"), (slurm.SlurmInfoWatcher, "_make_command")):
        monkeypatch.setattr(kind, method, getattr(kind, method))
    monkeypatch.setattr(HydraConfig, "set_config", lambda self, config: None)  # it takes whole ones only
    count_lost_jobs_as_failed.cache_clear()
    count_lost_jobs_as_failed()
    loader = SimpleNamespace(load_sweep_config=_load_sweep_config)
    launcher = SimpleNamespace(hydra_context=SimpleNamespace(config_loader=loader), config=str(tmp_path))
    submission = SimpleNamespace(function=launcher, args=(["seed=2"], "hydra.sweep.dir", 1, "id", {}))
    paths = SimpleNamespace(stdout=tmp_path / "7_1_log.out")
    yield SimpleNamespace(job_id="7_1", state="OUT_OF_MEMORY", paths=paths, submission=lambda: submission)
    count_lost_jobs_as_failed.cache_clear()


def test_the_reason_is_in_the_folder_of_the_job(job: Any, tmp_path: Path) -> None:
    (result,) = core.Job.results(job)
    assert math.isnan(result.return_value)
    reason = "job 7_1 ended without a result (out of memory); its output is in "
    assert read_failure(tmp_path / "1_seed=2") == f"{reason}{tmp_path}/7_1_log.out"


def test_a_reason_that_the_job_gives_is_kept(job: Any, tmp_path: Path) -> None:
    (tmp_path / "1_seed=2").mkdir()
    record_failure(tmp_path / "1_seed=2", ValueError(), "no such file")
    core.Job.results(job)
    assert read_failure(tmp_path / "1_seed=2") == "no such file"


def test_a_state_that_says_nothing_is_left_out(job: Any, tmp_path: Path) -> None:
    job.state = "FINISHED"
    core.Job.results(job)
    assert str(read_failure(tmp_path / "1_seed=2")).startswith("job 7_1 ended without a result; its output")


def _answer(returncode: int, stdout: str = "", stderr: str = "") -> SimpleNamespace:
    return SimpleNamespace(returncode=returncode, stdout=stdout, stderr=stderr)


GONE, UNKNOWN = _answer(0), _answer(1, stderr="slurm_load_jobs error: Invalid job id specified")
WAITING, UNREACHABLE = _answer(0, "7_1 PENDING"), _answer(1, stderr="Unable to contact slurm controller")


@pytest.mark.parametrize(
    ("answers", "checks"),
    [
        ([WAITING, GONE, GONE], 3),
        ([UNKNOWN, UNKNOWN], 2),
        ([GONE, WAITING, UNREACHABLE, UNKNOWN, GONE], 5),  # it was being moved when it was missing
    ],
)
def test_a_job_that_has_left_the_queue_is_not_waited_for(
    answers: list[Any], checks: int, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a waiting job that is cancelled, which SLURM's accounting may not know."""
    asked: list[list[str]] = []

    def answer(command: list[str], **options: Any) -> Any:
        asked.append(command)
        return answers[len(asked) - 1]

    monkeypatch.setattr(queued_jobs, "SECONDS_BETWEEN_CHECKS", 0.0)
    monkeypatch.setattr(queued_jobs.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(queued_jobs.subprocess, "run", answer)
    job.done = lambda: False
    slurm.SlurmJob.wait(job)
    assert asked == [["squeue", "--noheader", "--jobs", "7_1"]] * checks


@pytest.mark.parametrize("status", [0, 1])
def test_accounting_is_only_asked_where_it_is_kept(
    status: int, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued_jobs._keeps_accounts.cache_clear()
    monkeypatch.setattr(queued_jobs.shutil, "which", lambda name: name)
    monkeypatch.setattr(queued_jobs.subprocess, "run", lambda command, **options: _answer(status))
    watcher = slurm.SlurmInfoWatcher()
    watcher.register_job("7_1")
    assert (watcher._make_command() is None) == bool(status)
    queued_jobs._keeps_accounts.cache_clear()
