"""Messages for a run that ends because of a signal or because another of its processes died."""

import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from attention_lab.console_text import console_line
from attention_lab.errors import LabError, Stopped
from attention_lab.files.paths import short_path
from attention_lab.files.run_files import ERROR
from attention_lab.interruption import ranks, resume, signals
from attention_lab.job_line import JOB_LINE, jobs_run_in_turn


def exit_after_signal(stopped: Stopped, folder: Path, training: bool) -> NoReturn:
    """Print how to resume, and end the program and its sweep with the signal's exit status."""
    if stopped.signum == 0 or not ranks.is_main_process():  # the first process reports for all
        sys.exit(0)
    logging.getLogger("torch").setLevel(logging.WARNING)  # half imported, it logs cache counts at exit
    if not ranks.is_rank_zero():  # also among those that srun or torchrun starts
        sys.exit(128 + stopped.signum)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        JOB_LINE.end("stopped")
    if training and ranks.OWNED_BY_SWEEP not in os.environ:  # the job that started this process says it
        command = resume.resume_command(folder)
        if HydraConfig.get().runtime.choices.get("sweep"):
            command = "the command of the search, which runs this trial again"
        elif HydraConfig.get().mode == RunMode.MULTIRUN:
            command += f", and the sweep with {_sweep_command(Path(HydraConfig.get().sweep.dir))}"
        queued = "SLURM is asked to queue this job again, or " if stopped.signum == signal.SIGUSR1 else ""
        reason = f"Stopped by {signal.Signals(stopped.signum).name}; {queued}resume with {command}"
        print(console_line(reason), file=sys.stderr)
    if stopped.signum == signal.SIGUSR1:
        signals.requeue()
    sys.exit(128 + stopped.signum)


def print_between_jobs(config: DictConfig, signum: int) -> None:
    """Print how to resume a sweep or search that a signal stops while no job is handling signals."""
    if JOB_LINE.unfinished:
        JOB_LINE.end("stopped")
    if config.get("sweep") is not None:
        command = "continue the search with its own command"
    else:
        waiting = "" if jobs_run_in_turn(config.hydra.launcher._target_) else "once no job of it is running, "
        command = f"{waiting}resume the sweep with {_sweep_command(Path(config.hydra.sweep.dir))}"
    print(console_line(f"Stopped by {signal.Signals(signum).name}; {command}"), file=sys.stderr, flush=True)


def _sweep_command(folder: Path) -> str:
    return f"its own command and resume=auto hydra.sweep.dir={short_path(folder.resolve())}"


def lost_process_error(folder: Path, since: float) -> LabError | None:
    """The error to report when another process has ended; None if that process has recorded why.

    Args:
        folder: the run's folder.
        since: when this process started; an older record is from before the run was resumed.
    """
    reason = folder / ERROR
    if reason.is_file() and reason.stat().st_mtime >= since:
        return None
    return LabError(
        "another process of this run was killed, perhaps because memory ran out; "
        f"resume the run with {resume.resume_command(folder)}"
    )
