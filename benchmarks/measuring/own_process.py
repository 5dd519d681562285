"""Work in a separate process, which blocks while others do their work.

Training runs in threads of one process slow each other down even though they take turns: each thread that
computes opens an OpenMP team, and if all teams together have more threads than there are cores, libgomp
hardly spins any more. A step with hundreds of parallel regions then takes 40% longer than in a normal run.
"""

import atexit
import signal
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from weakref import finalize

import torch
from torch import Tensor

ENDS_WITHIN = 20.0  # seconds that a piece of work in progress has to finish
Another = Callable[[], bool]
"""Reports that the last piece of work is done, and waits; true if there is another, false to end."""
Job = Callable[[Another], None]
"""Prepares, then does pieces of work as long as there is another one."""
_Told = tuple[str, str]
"""An error on one line, and its traceback."""


class OwnProcess:
    """Work done by another process, which ends with this object or with the process that created it.

    Args:
        job: the work; it is imported there, so it must be a function in a module, or a `partial` of one.

    Raises:
        RuntimeError: the process has failed, while preparing or, when called, in a piece of work.
    """

    def __init__(self, job: Job) -> None:
        context = get_context("spawn")  # a fork would inherit the threads, and their count, of this one
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(job, theirs, torch.get_num_threads()), daemon=True
        )
        self._process.start()
        theirs.close()  # only the child keeps it open, so that its end is noticed
        # Runs before multiprocessing waits for its processes at exit, since that was imported earlier.
        atexit.register(finalize(self, _end, self._process, self._connection))
        self._wait()

    def __call__(self) -> Sequence[Tensor]:
        """Do a piece of work; its results are not returned."""
        try:
            self._connection.send(None)
        except BrokenPipeError:
            raise self._ended() from None
        self._wait()
        return ()

    def _wait(self) -> None:
        try:
            told: _Told | None = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._ended() from None
        if told is not None:
            raise _failure(*told)

    def _ended(self) -> RuntimeError:
        self._process.join()
        return RuntimeError(f"its process ended too early, with status {self._process.exitcode}")


def _failure(line: str, trace: str) -> RuntimeError:
    error = RuntimeError(f"in its process: {line}")
    error.add_note(trace)
    return error


def _end(process: SpawnProcess, connection: Connection) -> None:
    connection.close()
    process.join(ENDS_WITHIN)
    if process.is_alive():
        process.kill()
        process.join()


def _serve(job: Job, connection: Connection, threads: int) -> None:
    """Run the other process from start to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process; this one ends with it
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    try:
        job(partial(_another, connection))
    except BaseException as error:
        line = (str(error).splitlines() or [""])[0]
        _tell(connection, (f"{type(error).__name__}: {line}", traceback.format_exc()))
        raise SystemExit(1) from error


def _another(connection: Connection) -> bool:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    if not _tell(connection, None):
        return False
    try:
        connection.recv()
    except (EOFError, ConnectionResetError):
        return False
    return True


def _tell(connection: Connection, told: _Told | None) -> bool:
    """Send a message; returns whether there was anyone to receive it."""
    try:
        connection.send(told)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True
