"""Let a sweep go on when its queue ends a job, such as one that is out of memory, time or favour."""

import math
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.runs.recorded_failures import read_failure, record_failure
from attention_lab.runs.run_names import job_configuration


@cache
def go_on_without_lost_jobs() -> None:
    """Let Hydra's submitit launchers take a job without a result for a failed one, and record why it failed.

    Otherwise the first such job would end the sweep with a traceback, and without its leaderboard.
    """
    from submitit.core.core import Job
    from submitit.core.utils import FailedJobError, UncompletedJobError

    wait_for_results = Job.results

    def results(job: Job[Any]) -> list[Any]:
        try:
            return wait_for_results(job)
        except (UncompletedJobError, FailedJobError):
            _record(job)
            return [JobReturn(_return_value=math.nan, status=JobStatus.COMPLETED)]

    Job.results = results  # type: ignore[assignment, method-assign]


def _record(job: Any) -> None:
    """Write to the folder of a job of the sweep that it has no result, unless it says itself why."""
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
