"""Ctrl-C, SIGTERM and SLURM's warning: the usual exit status; a training ends between two batches."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from attention_lab.errors import Stopped

OWNED = "ATTENTION_LAB_OWNED"
"""Variable of a process that a job of a sweep has started, and that is to end with it."""
_IN_SLURM = "SLURM_JOB_ID"


def _ours() -> list[signal.Signals]:
    """The signals that nobody else handles: a launcher of sweeps may have handlers of its own."""
    if threading.current_thread() is not threading.main_thread():
        return []
    asked = [signal.SIGINT, signal.SIGTERM]
    if _IN_SLURM in os.environ:
        asked.append(signal.SIGUSR1)  # `sbatch --signal=USR1@90`, before the time of the job is over
    free = (signal.SIG_DFL, signal.default_int_handler, _stop)
    return [one for one in asked if signal.getsignal(one) in free]


def _stop(signum: int, _: FrameType | None) -> None:
    raise Stopped(signum)


@contextmanager
def stopping() -> Iterator[None]:
    """A signal raises `Stopped` at once."""
    before = {one: signal.signal(one, _stop) for one in _ours()}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class Waiting:
    """A context in which the first signal is only noted, for a training to stop at a good place.

    Attributes:
        signum: the signal that came, if one has.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._handlers: dict[int, Any] = {}
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Waiting":
        ours = _ours()
        everything = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        self._before = {one: signal.getsignal(one) for one in everything if signal.getsignal(one) is not None}
        self._handlers = self._before | dict.fromkeys(ours, self._note)
        self.install()
        return self

    def install(self) -> None:
        """Take the place of handlers that were set since."""
        if threading.current_thread() is threading.main_thread():
            for one, handler in self._handlers.items():
                signal.signal(one, handler)

    def __exit__(self, *_: object) -> None:
        self._handlers = self._before
        self.install()

    def _note(self, signum: int, _: FrameType | None) -> None:
        # Who asks twice does not want to wait; but the job of a sweep is asked by its parent, too.
        if self.signum == signum and OWNED not in os.environ:
            raise Stopped(signum)
        self.signum = self.signum or signum


def is_first() -> bool:
    """Whether this is the only process of a run on this machine, or the one that started the others."""
    return int(os.environ.get("LOCAL_RANK") or 0) == 0


def by_srun() -> bool:
    """Whether SLURM has started this process as one of its tasks, as Lightning sees it."""
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def leads() -> bool:
    """Whether this is the first process of a run, on whatever machine: the one that writes."""
    rank = os.environ.get("RANK")  # torchrun's
    if rank is None and by_srun():
        rank = os.environ.get("SLURM_PROCID")
    if rank is not None:
        return int(rank) == 0
    return is_first() and int(os.environ.get("NODE_RANK") or 0) == 0


def follow_parent() -> None:
    """End with the process that has started this one, where this is one of several of a run (Linux only).

    Lightning's other processes would wait for the first one; that of a job, for nobody.
    """
    if sys.platform.startswith("linux") and (OWNED in os.environ or not is_first()):
        end_with_parent = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(end_with_parent, signal.SIGTERM if is_first() else signal.SIGKILL)


def requeue() -> None:
    """Have SLURM start this job again."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    job = f"{array}_{task}" if array and task else os.environ[_IN_SLURM]
    subprocess.run(["scontrol", "requeue", job], check=False)
