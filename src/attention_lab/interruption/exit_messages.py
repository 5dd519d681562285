"""What is said where a signal ends a run, or the end of another of its processes does."""

import logging
import signal
import sys
from pathlib import Path
from typing import NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from attention_lab.errors import LabError, Stopped
from attention_lab.interruption import resume, signals
from attention_lab.runs.run_folder import ERROR


def exit_after_signal(stopped: Stopped, folder: Path, training: bool) -> NoReturn:
    """End the program, and a sweep with it, with the status that a signal gives, and say how to go on."""
    if stopped.signum == 0 or not signals.is_main_process():  # the first process speaks for all
        sys.exit(0)
    if training:
        where = f"{resume.resume_command(folder)}"
        if HydraConfig.get().runtime.choices.get("sweep"):
            where = "the command of the search, which runs this trial again"
        elif HydraConfig.get().mode == RunMode.MULTIRUN:
            sweep = resume.display_path(Path(HydraConfig.get().sweep.dir).resolve())
            where += f", and the sweep by its command with resume=auto hydra.sweep.dir={sweep}"
        print(f"Stopped by {signal.Signals(stopped.signum).name}; resume it with {where}", file=sys.stderr)
    logging.getLogger("torch").setLevel(logging.WARNING)  # half imported, it ends with counts of a cache
    if stopped.signum == signal.SIGUSR1:
        signals.requeue()
    sys.exit(128 + stopped.signum)


def lost_process_error(folder: Path, since: float) -> LabError | None:
    """What there is to say of another process that has ended; None if that one has told why itself.

    Args:
        folder: the run's.
        since: the time at which this run began; what was told before is of an earlier part.
    """
    reason = folder / ERROR
    if reason.is_file() and reason.stat().st_mtime >= since:
        return None
    return LabError(
        "another process of this run was killed, perhaps as the memory was used up; "
        f"resume the run with {resume.resume_command(folder)}"
    )
