"""Ctrl-C, SIGTERM and SLURM's warning: the usual exit status; a training ends between two batches."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from attention_lab.errors import Stopped

OWNED_BY_SWEEP = "ATTENTION_LAB_OWNED"
"""Variable of a process that a job of a sweep has started, and that is to end with it."""
FIRST_PROCESS = "ATTENTION_LAB_FIRST"
"""Variable with the number of the process that starts the others of a run."""
SAME_SIGNAL_SECONDS = 2.0
"""Seconds within which signals of one kind are one: `timeout` sends two, and a parent its own."""
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
def raise_on_signals() -> Iterator[None]:
    """A signal raises `Stopped` at once; a process that another one of its run has started just ends."""
    ours: Any = signal.SIG_DFL if is_child_process() else _stop
    before = {one: signal.signal(one, ours) for one in _ours()}
    if is_child_process():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class DeferredSignals:
    """A context in which the first signal is only noted, for a training to stop at a good place.

    Attributes:
        signum: the signal that came, if one has.
        ours: the signals that are noted.
        begun: whether the training has; to be changed with `lock` only.
        lock: what is decided by `begun` is done under it.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.ours: list[signal.Signals] = []
        self.begun = False
        self.lock = threading.Lock()
        self._came = 0.0
        self._mask: Any = None
        self._handlers: dict[int, Any] = {}
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "DeferredSignals":
        self.ours = _ours()
        everything = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
        self._before = {one: signal.getsignal(one) for one in everything if signal.getsignal(one) is not None}
        self._handlers = self._before | dict.fromkeys(self.ours, self._note)
        self.install()
        return self

    def install(self) -> None:
        """Take the place of handlers that were set since."""
        if threading.current_thread() is threading.main_thread():
            for one, handler in self._handlers.items():
                signal.signal(one, handler)

    def begin(self) -> None:
        """From now on a signal ends the training between two batches, and nothing ends it sooner."""
        with self.lock:
            self.begun = True
        self.install()
        self.let_through()

    def hold_back(self) -> None:
        """Leave Ctrl-C to the other threads: the processes started now say nothing of it."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])

    def let_through(self) -> None:
        """The end of `hold_back`."""
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            self._mask = None

    def __exit__(self, *_: object) -> None:
        self._handlers = self._before
        self.install()

    def _note(self, signum: int, _: FrameType | None) -> None:
        # Who asks twice does not want to wait; but the job of a sweep is asked by its parent, too.
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._came = signum, now
        elif (
            self.signum == signum
            and now - self._came > SAME_SIGNAL_SECONDS
            and OWNED_BY_SWEEP not in os.environ
        ):
            raise Stopped(signum)


def is_main_process() -> bool:
    """Whether this is the only process of a run on this machine, or the one that started the others."""
    return int(os.environ.get("LOCAL_RANK") or 0) == 0


def started_by_srun() -> bool:
    """Whether SLURM has started this process as one of its tasks, as Lightning sees it."""
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def is_rank_zero() -> bool:
    """Whether this is the first process of a run, on whatever machine: the one that writes."""
    rank = os.environ.get("RANK")  # torchrun's
    if rank is None and started_by_srun():
        rank = os.environ.get("SLURM_PROCID")
    if rank is not None:
        return int(rank) == 0
    return is_main_process() and int(os.environ.get("NODE_RANK") or 0) == 0


def exit_with_parent() -> None:
    """End with the process that has started this one, where this is one of several of a run (Linux only).

    Lightning's other processes would wait for the first one; that of a job, for nobody.
    """
    if sys.platform.startswith("linux") and (OWNED_BY_SWEEP in os.environ or not is_main_process()):
        end_with_parent = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(end_with_parent, signal.SIGTERM if is_main_process() else signal.SIGKILL)
    if is_orphan():  # since before that
        sys.exit(1)


def is_child_process() -> bool:
    """Whether another process of this run has started this one."""
    return FIRST_PROCESS in os.environ and not is_main_process()


def is_orphan() -> bool:
    """Whether the process that has started this one, of the same run, has ended."""
    return is_child_process() and os.environ[FIRST_PROCESS] != str(os.getppid())


def requeue() -> None:
    """Have SLURM start this job again."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    job = f"{array}_{task}" if array and task else os.environ[_IN_SLURM]
    subprocess.run(["scontrol", "requeue", job], check=False)
