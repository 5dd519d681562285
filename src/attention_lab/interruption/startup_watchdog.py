"""End all processes of a run that is still starting when a signal arrives or one of them ends.

While processes connect to each other, they wait inside C++ code for up to half an hour, where Python runs no
signal handlers. So a thread watches them until training has started. No checkpoint is written before that.
"""

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attention_lab.console_text import console_message
from attention_lab.errors import LabError, Stopped
from attention_lab.interruption import exit_messages
from attention_lab.interruption.ranks import FIRST_PROCESS, is_child_process, is_main_process, is_orphan
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.runs.recorded_failures import record_failure

TICK = 0.1
GRACE = 0.8
"""Seconds that the first process has to start training after all, or to fail by itself."""
CHILD_GRACE = 3.0
"""The same for the other processes; longer, so that the first one can report for all."""


class StartupWatchdog:
    """A context that ends this process and its children if one of them fails before training has started.

    Args:
        deferred: the signals received, and whether training has started; its context must enclose this one.
        children: returns the processes that this one has started so far.
        folder: the run's folder.
    """

    def __init__(
        self, deferred: DeferredSignals, children: Callable[[], list["subprocess.Popen[bytes]"]], folder: Path
    ) -> None:
        self.deferred, self.children, self.folder = deferred, children, folder
        self.created = time.time()
        self._pipe: tuple[int, int] | None = None
        self._hidden: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "StartupWatchdog":
        if is_main_process():
            os.environ[FIRST_PROCESS] = str(os.getpid())
        if threading.current_thread() is threading.main_thread():
            self._listen()
        threading.Thread(target=self._watch, name="starting", daemon=True).start()
        if self._pipe is not None and is_main_process():
            self.deferred.block_interrupt()
        return self

    def __exit__(self, *_: object) -> None:
        with self.deferred.lock:
            self.deferred.training_started = True
        if is_main_process():  # or later child processes would consider themselves orphans
            os.environ.pop(FIRST_PROCESS, None)
        if self._pipe is not None:
            self.deferred.unblock_interrupt()
            signal.set_wakeup_fd(-1)
            for end in self._pipe:
                os.close(end)

    def _listen(self) -> None:
        """Have C code write the number of each signal to a pipe, which it does at once."""
        pipe = os.pipe()
        for end in pipe:
            os.set_blocking(end, False)
        before = signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
        if before == -1:
            self._pipe = pipe
            return
        signal.set_wakeup_fd(before)  # an event loop uses it
        for end in pipe:
            os.close(end)

    def _watch(self) -> None:
        """Watch until training has started or there is a reason to end."""
        status: int | None = None
        deadline = 0.0
        while True:
            time.sleep(TICK)
            with self.deferred.lock:  # training cannot start while the lock is held
                if self.deferred.training_started:
                    break
                if status is None:
                    status = self._end_status()
                    deadline = time.monotonic() + (CHILD_GRACE if is_child_process() else GRACE)
                elif time.monotonic() >= deadline:
                    self._end(status)
                    return
        for process in self._hidden:
            del process.poll

    def _poll(self, process: "subprocess.Popen[bytes]") -> int | None:
        """The status of a process that has ended, as `Popen.poll` gives it, hidden from Lightning's observer.

        The observer polls the processes every five seconds, and kills this one if another has failed. It must
        not do so before this one has reported why.
        """
        if process not in self._hidden:
            process.poll = lambda: None  # type: ignore[method-assign]
            self._hidden.append(process)
        status = process.returncode  # not None if the observer came first
        if status is None:
            ended, found = os.waitpid(process.pid, os.WNOHANG)
            if not ended:
                return None
            status = os.waitstatus_to_exitcode(found)
        process.returncode = 0
        return status

    def _end_status(self) -> int | None:
        """The status of a process that ended, as in `Popen.returncode`, or minus a signal received here."""
        if self._pipe is not None and select.select([self._pipe[0]], [], [], 0)[0]:
            received = [signum for signum in os.read(self._pipe[0], 4096) if signum in self.deferred.handled]
            if received:
                return -received[0]
        if is_orphan():
            os._exit(1)
        for process in self.children():
            status = self._poll(process)  # negative if a signal ended it before it had handlers
            if status is not None:
                return 128 - status if status > 128 else status
        return None

    def _end(self, status: int) -> None:
        for process in self.children():
            process.kill()
        for worker in multiprocessing.active_children():
            worker.kill()
        code: Any = 1
        if -status in self.deferred.handled:
            code = 128 - status
            if is_main_process():
                try:
                    exit_messages.exit_after_signal(Stopped(-status), self.folder, training=True)
                except SystemExit as end:
                    code = end.code
        elif is_main_process():
            error = exit_messages.lost_process_error(self.folder, self.created)
            if error is not None:
                print(console_message("Error", error), file=sys.stderr)
                with suppress(LabError):  # the disk may be full
                    record_failure(self.folder, error, str(error))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no exception can reach a main thread that waits inside C++
