"""Let a sweep go on when its queue ends a job that exceeded its memory or time, or was cancelled."""

import math
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.runs.recorded_failures import read_failure, record_failure
from attention_lab.runs.run_names import job_configuration

SECONDS_BETWEEN_CHECKS = 30.0
"""A job that is missing from SLURM's queue at two checks in a row has ended."""


@cache
def count_lost_jobs_as_failed() -> None:
    """Make Hydra's submitit launchers treat a job without a result as failed, and record why it failed.

    Otherwise the first such job would end the sweep with a traceback, and without its leaderboard. Where
    SLURM keeps no accounts, submitit would wait for it for ever, and warn twice a minute.
    """
    from submitit.core.core import Job
    from submitit.core.utils import FailedJobError, UncompletedJobError
    from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

    wait_for_results, ask_accounting = Job.results, SlurmInfoWatcher._make_command

    def results(job: Job[Any]) -> list[Any]:
        try:
            return wait_for_results(job)
        except (UncompletedJobError, FailedJobError):
            _record(job)
            return [JobReturn(_return_value=math.nan, status=JobStatus.COMPLETED)]

    def asked_command(watcher: SlurmInfoWatcher) -> list[str] | None:
        return ask_accounting(watcher) if _keeps_accounts() else None

    Job.results = results  # type: ignore[assignment, method-assign]
    SlurmJob.wait = _wait  # type: ignore[assignment, method-assign]
    SlurmInfoWatcher._make_command = asked_command  # type: ignore[assignment, method-assign]


@cache
def _keeps_accounts() -> bool:
    """Whether SLURM can say what has become of the jobs that have left its queue."""
    if shutil.which("sacct") is None:
        return False
    return subprocess.run(["sacct", "--noheader"], capture_output=True, check=False).returncode == 0


def _wait(job: Any) -> None:
    """Wait until a job has a result, SLURM's accounting says that it has ended, or it has left the queue."""
    checked, missing = time.monotonic(), 0
    while not job.done():
        time.sleep(1)
        if time.monotonic() - checked >= SECONDS_BETWEEN_CHECKS:
            checked = time.monotonic()
            missing = missing + 1 if _left_queue(job.job_id) else 0
            if missing == 2:
                return


def _left_queue(job_id: str) -> bool:
    """Whether SLURM says that it has no such job waiting or running."""
    command = ["squeue", "--noheader", "--jobs", job_id]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:  # an error of the connection says nothing about the job
        return "Invalid job id" in done.stderr
    return not done.stdout.strip()


def _record(job: Any) -> None:
    """Write to the folder of a job of the sweep that it has no result, unless the job itself recorded why."""
    submission = job.submission()
    options, _, number = submission.args[:3]
    launcher = submission.function
    _, folder = job_configuration(launcher.hydra_context.config_loader, launcher.config, options, number)
    if read_failure(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    state, output = job.state.lower().replace("_", " "), short_path(Path(job.paths.stdout))
    how = "" if state in ("finished", "unknown") else f" ({state})"
    reason = f"job {job.job_id} ended without a result{how}; its output is in {output}"
    record_failure(folder, LabError(reason), reason)
