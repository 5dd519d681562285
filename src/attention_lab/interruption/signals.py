"""Handle Ctrl-C, SIGTERM and SLURM's warning: stop training between batches, with the usual exit status."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from attention_lab.errors import Stopped
from attention_lab.interruption.early_signals import exit_at_once, raise_exit
from attention_lab.interruption.ranks import OWNED_BY_SWEEP, is_child_process

SAME_SIGNAL_SECONDS = 2.0
"""Within this time a repeated signal counts once: `timeout` sends two, and so may a parent process."""
_IN_SLURM = "SLURM_JOB_ID"
_raised: list[int] = []
"""The signals for which `Stopped` was raised in this job. A finalizer or a library may have dropped it."""


def _unclaimed_signals() -> list[signal.Signals]:
    """The signals to handle, except those that a sweep's launcher handles itself."""
    if threading.current_thread() is not threading.main_thread():
        return []
    wanted = [signal.SIGINT, signal.SIGTERM]
    if _IN_SLURM in os.environ:
        wanted.append(signal.SIGUSR1)  # `sbatch --signal=USR1@90`, before the job's time limit
    unclaimed = (signal.SIG_DFL, signal.default_int_handler, exit_at_once, raise_exit, _stop)
    return [signum for signum in wanted if signal.getsignal(signum) in unclaimed]


def _stop(signum: int, _: FrameType | None) -> None:
    _raised.append(signum)
    raise Stopped(signum)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise `Stopped` as soon as a signal arrives; a process started by another one of the run just ends."""
    handler: Any = signal.SIG_DFL if is_child_process() else _stop
    before = {signum: signal.signal(signum, handler) for signum in _unclaimed_signals()}
    if is_child_process():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        _raised.clear()


@contextmanager
def held_back() -> Iterator[None]:
    """Act on a signal only at the end of the block, unless it is repeated: for the imports of C++ libraries.

    An exception raised inside the C++ code with which PyTorch sets itself up would abort the process.
    """
    handlers = {signum: signal.getsignal(signum) for signum in _unclaimed_signals()}
    raising = {one: found for one, found in handlers.items() if found not in (signal.SIG_DFL, exit_at_once)}
    received: dict[int, float] = {}

    def record(signum: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - received.setdefault(signum, now) > SAME_SIGNAL_SECONDS:
            exit_at_once(signum, frame)

    for signum in raising:
        signal.signal(signum, record)
    try:
        yield
    finally:
        for signum, handler in raising.items():
            signal.signal(signum, handler)
        if received:
            signal.raise_signal(next(iter(received)))


class DeferredSignals:
    """A context in which the first signal is only recorded, so that training can stop between two batches.

    Raises:
        Stopped: on entry, a signal has arrived before, but the exception was dropped.

    Attributes:
        signum: the signal received, if any.
        handled: the signals that are recorded.
        training_started: whether training has started; read and written under `lock`.
        lock: held while acting on `training_started`.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.handled: list[signal.Signals] = []
        self.training_started = False
        self.lock = threading.Lock()
        self._received_at = 0.0
        self._mask: Any = None
        self._handlers: dict[int, Any] = {}
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "DeferredSignals":
        if _raised:
            raise Stopped(_raised[0])
        self.handled = _unclaimed_signals()
        signums = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        found = {signum: signal.getsignal(signum) for signum in signums}
        self._before = {signum: handler for signum, handler in found.items() if handler is not None}
        self._handlers = self._before | dict.fromkeys(self.handled, self._record)
        self.install()
        return self

    def install(self) -> None:
        """Install the handlers, replacing any that were set since."""
        if threading.current_thread() is threading.main_thread():
            for signum, handler in self._handlers.items():
                signal.signal(signum, handler)

    def start_training(self) -> None:
        """From now on a signal ends training between two batches, and the startup watchdog stops watching."""
        with self.lock:
            self.training_started = True
        self.install()
        self.unblock_interrupt()

    def block_interrupt(self) -> None:
        """Block Ctrl-C in this thread and thus in the processes it starts, so that they print nothing."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])

    def unblock_interrupt(self) -> None:
        """Undo `block_interrupt`."""
        if self._mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            self._mask = None

    def __exit__(self, *_: object) -> None:
        self._handlers = self._before
        self.install()

    def _record(self, signum: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signum is None:
            self.signum, self._received_at = signum, now
            return
        # A user who repeats a signal does not want to wait; in a sweep's job, it may come from the parent.
        repeated = self.signum == signum and now - self._received_at > SAME_SIGNAL_SECONDS
        if repeated and OWNED_BY_SWEEP not in os.environ:
            raise Stopped(signum)


def requeue() -> None:
    """Ask SLURM to queue this job again."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    job = f"{array}_{task}" if array and task else os.environ[_IN_SLURM]
    subprocess.run(["scontrol", "requeue", job], check=False)
