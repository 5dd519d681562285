"""Print a line for each job of a sweep, and the leaderboard at the end."""

import math
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.exit_errors import errors_in_one_line
from attention_lab.commandline.overrides import needs_listed_values, sweep_overrides, sweep_sizes
from attention_lab.config_parts import SEED
from attention_lab.console_text import console_message, console_width, printable
from attention_lab.errors import LabError, first_line
from attention_lab.files.regular_files import is_file
from attention_lab.files.run_files import ERROR, METRICS
from attention_lab.files.writing import remove
from attention_lab.job_line import JOB_LINE, jobs_run_in_turn
from attention_lab.leaderboard.board import write_leaderboard
from attention_lab.leaderboard.failures import describe_failures
from attention_lab.leaderboard.queued_jobs import count_lost_jobs_as_failed
from attention_lab.leaderboard.settings import headlines
from attention_lab.leaderboard.view import OPTIONS, View
from attention_lab.runs.recorded_failures import read_failure, record_failure
from attention_lab.runs.run_folder import find_runs, read_job, started_jobs
from attention_lab.runs.run_names import exclude_from_names
from attention_lab.runs.started import discard_unstarted
from attention_lab.text_tables import metric_name, number


class LeaderboardCallback(Callback):
    """A Hydra callback that prints a line for each job of a sweep, and a leaderboard at the end.

    Jobs that differ only in their seed are one setting; for tables and pictures see
    `board.write_leaderboard`. A failed job does not stop the others; it is listed with its reason, and the
    sweep ends with status 1. The reason is also saved in the run's folder, inside and outside sweeps.

    Args:
        view: the columns of the table and the axes of the picture; see `leaderboard.view.View`.
    """

    @errors_in_one_line()
    def __init__(self, **view: Any) -> None:
        self.view = View.of(view)
        self.start = 0.0
        self.finished_before = False
        self.swept: list[str] = []
        self.total = 0
        self.earlier: dict[Path, int] = {}

    @errors_in_one_line()
    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the sweep's folder; reject unknown columns now rather than after hours of work."""
        overrides = sweep_overrides(config)
        try:
            self._check_columns(config)
            if needs_listed_values(config):
                _check_values(overrides)
        except LabError:
            discard_unstarted()
            raise
        counts = sweep_sizes(overrides)
        swept = [key for key, count in counts.items() if count is not None]
        self.swept = [*swept, SEED]
        self.total = math.prod(count for count in counts.values() if count is not None)
        if swept:
            exclude_from_names(config, [key for key in counts if key not in swept])
        self.earlier = _times_of_start(Path(config.hydra.sweep.dir))
        print(console_message("Sweep", config.hydra.sweep.dir), flush=True)
        if submitit := OmegaConf.select(config, "hydra.launcher.submitit_folder"):
            count_lost_jobs_as_failed()
            files = f"{submitit.replace('%j', '*')}/*_log.out"  # %j is the ID of a job
            print(console_message("Output of its jobs", files), flush=True)

    def _check_columns(self, config: DictConfig) -> None:
        """Raise LabError if a column or axis is not an option, a group or a metric."""
        if self.view.x is not None and self.view.y is None:
            raise LabError(f"{OPTIONS}: x needs y, the metric to plot against x")
        for key in (self.view.x, self.view.group):
            known = key is None or "/" in key or key in config.hydra.runtime.choices
            if not known and OmegaConf.select(config, key or "", default="?") == "?":
                raise LabError(f"{OPTIONS}: {key} is not an option, a group or a metric")

    def on_job_start(self, config: DictConfig, *, task_function: TaskFunction, **kwargs: Any) -> None:
        """Announce a job of a sweep, and remove what an earlier job left in its folder."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        folder = Path(config.hydra.runtime.output_dir)
        for name in self.outdated_files(config):
            remove(folder / name)
        self.start = time.perf_counter()
        self.finished_before = is_file(folder / METRICS)
        self.begin_line(config, folder)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Complete a job's line; record a failure in its folder and let the sweep continue."""
        folder = Path(config.hydra.runtime.output_dir)
        in_sweep = config.hydra.mode == RunMode.MULTIRUN
        if job_return.status == JobStatus.FAILED:
            error = job_return._return_value
            if in_sweep:
                # A sweeper stops at an exception, but accepts NaN as the result of one bad job.
                job_return.status, job_return.return_value = JobStatus.COMPLETED, math.nan
            # If the job's own process wrote a reason, that one is more informative.
            result = "failed"
            if not read_failure(folder):
                try:
                    record_failure(folder, error, _error_line(error))
                except LabError as unwritable:  # Hydra would only print it as a warning
                    result = f"failed: {unwritable}"
            if in_sweep:
                self.end_line(result)
        elif in_sweep:
            job = read_job(folder)
            shown = [f"{metric_name(name)} {number(job.metrics[name])}" for name in headlines([job])]
            seconds = f"{time.perf_counter() - self.start:.1f} s"
            self.end_line("  ".join([*shown[:1], "finished before" if self.finished_before else seconds]))

    def outdated_files(self, config: DictConfig) -> tuple[str, ...]:
        """The files that an earlier job may have left, but not the results if a sweep is resumed.

        Those are the results of this very job, which has finished.
        """
        resumed = config.get("resume") is not None and config.get("stage") == "fit"
        return (ERROR,) if resumed else (ERROR, METRICS)

    def begin_line(self, config: DictConfig, folder: Path) -> None:
        """Print the number of a job and the options in which it differs from others."""
        count = f"/{self.total}" if self.total else ""
        label = printable(read_job(folder).label(self.swept), most=console_width())
        in_turn = jobs_run_in_turn(config.hydra.launcher._target_)
        JOB_LINE.begin(f"{int(config.hydra.job.num) + 1}{count}  {label}", alone=in_turn)

    def end_line(self, result: str) -> None:
        """Print the result of a job."""
        JOB_LINE.end(result)

    @errors_in_one_line()
    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table and write the files; if jobs failed, say why and end with status 1.

        Jobs of earlier commands in the same folder, which may have had other values, do not count as failed.
        """
        folder = Path(config.hydra.sweep.dir)
        jobs = find_runs([folder], every=True)
        measured = [job for job in jobs if job.has_metrics_stage or job.failed]
        if not measured:
            return
        found = write_leaderboard(folder, measured, self.view, config.pictures_format)
        now = _times_of_start(folder)
        earlier = {job for job, start in self.earlier.items() if now.get(job) == start}
        failed = [one for one in found.failed if folder / one.folder not in earlier]
        before = [one for one in found.failed if one not in failed]
        for line in describe_failures(before, len(jobs), "job"):
            print(console_message("Earlier", line), flush=True)
        if lines := describe_failures(failed, len(jobs) - len(earlier), "job"):
            sys.exit("\n".join(console_message("Error", line) for line in lines))


def _error_line(error: BaseException) -> str:
    """The message of an expected error; empty for an unexpected one, whose traceback is saved."""
    if not isinstance(error, CompactHydraException):
        return ""
    return first_line(error).removeprefix("Error: ")


def _check_values(overrides: Iterable[Override]) -> None:
    """Raise LabError for a range without steps, such as `interval(0, 1)`, which only a search can use."""
    for one in overrides:
        if one.is_sweep_override() and not one.is_discrete_sweep():
            raise LabError(
                f"{one.input_line} is for a search, with sweep=optuna; "
                f"for a sweep, list the values, as in {one.key_or_group}=1,2"
            )


def _times_of_start(sweep: Path) -> dict[Path, int]:
    """When each job in a sweep's folder was last started: Hydra then writes its options anew."""
    found = {}
    for record in started_jobs(sweep):
        with suppress(OSError):  # it has been removed
            found[record.parents[1]] = record.stat().st_mtime_ns
    return found
