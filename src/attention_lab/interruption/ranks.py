"""Which process of a run this is, and what started it."""

import ctypes
import multiprocessing
import os
import signal
import sys

OWNED_BY_SWEEP = "ATTENTION_LAB_OWNED"
"""Environment variable of a process that was started by a job of a sweep, and must end with it."""
FIRST_PROCESS = "ATTENTION_LAB_FIRST"
"""Environment variable with the ID of the process that starts the other processes of a run."""
IN_TORCHRUN = "TORCHELASTIC_RUN_ID"
SRUN_STEP = "SLURM_STEP_ID"
"""The variables that processes have only if torchrun or srun has started them."""


def is_main_process() -> bool:
    """Whether this is the run's only process on this machine, or the one that started the others."""
    return int(os.environ.get("LOCAL_RANK") or 0) == 0


def is_rank_zero() -> bool:
    """Whether this is the first of a run's processes on all machines: the one that writes files."""
    rank = os.environ.get("RANK")  # torchrun's
    if rank is None and started_by_srun():
        rank = os.environ.get("SLURM_PROCID")
    if rank is not None:
        return int(rank) == 0
    return is_main_process() and int(os.environ.get("NODE_RANK") or 0) == 0


def is_first_of_command() -> bool:
    """Whether this is the first process of a run or sweep, and not that of a job of a sweep."""
    return is_rank_zero() and OWNED_BY_SWEEP not in os.environ


def started_by_srun() -> bool:
    """Whether SLURM has started this process as one of its tasks; the rule is the same as Lightning's."""
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def in_shell_of_srun() -> bool:
    """Whether the user has a terminal, which `srun` gives to the first task alone, and only with `--pty`."""
    return os.isatty(0)


def started_processes() -> int:
    """How many processes torchrun or srun has started for this run; 1 if neither has started this one."""
    if IN_TORCHRUN in os.environ:
        return int(os.environ.get("WORLD_SIZE") or 1)
    if SRUN_STEP not in os.environ or not started_by_srun() or in_shell_of_srun():
        return 1
    return int(os.environ["SLURM_NTASKS"])


def is_child_process() -> bool:
    """Whether another process of this run has started this one."""
    return FIRST_PROCESS in os.environ and not is_main_process()


def is_orphan() -> bool:
    """Whether the process of the same run that started this one has ended."""
    return is_child_process() and os.environ[FIRST_PROCESS] != str(os.getppid())


def exit_with_parent() -> None:
    """Make this process end when the process of the same run or sweep that started it ends (Linux only).

    Otherwise Lightning's other processes would wait for the first one, a sweep's job would keep running, and
    joblib's processes would wait for another job for ever.
    """
    owned, by_joblib = OWNED_BY_SWEEP in os.environ, multiprocessing.parent_process() is not None
    if sys.platform.startswith("linux") and (owned or by_joblib or not is_main_process()):
        end_with_parent = 1  # PR_SET_PDEATHSIG
        saves = owned and is_main_process()
        ctypes.CDLL(None).prctl(end_with_parent, signal.SIGTERM if saves else signal.SIGKILL)
    if is_orphan():  # the parent ended before the call above
        sys.exit(1)
