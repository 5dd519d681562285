"""While a run starts: a signal, or the end of one of its processes, ends all of them soon.

Processes that look for each other wait within C++, where Python calls no handler of a signal, and they wait
for half an hour. So a thread looks after them, until the training has begun. No checkpoint is written before.
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
from pathlib import Path
from typing import Any

from attention_lab.errors import LabError, Stopped
from attention_lab.interruption import exit_messages
from attention_lab.interruption.signals import (
    FIRST_PROCESS,
    DeferredSignals,
    is_child_process,
    is_main_process,
    is_orphan,
)
from attention_lab.runs.run_folder import record_failure

TICK = 0.1
GRACE = 0.8
"""Seconds that a process has to begin the training after all, or to fail by itself."""
CHILD_GRACE = 3.0
"""The same for all but the first process, which is to speak for them."""


class StartupWatchdog:
    """A context that ends this process, and those it has started, until `waiting` knows that it has begun.

    Args:
        waiting: knows the signals, and whether the training has begun; its context has to be around this one.
        started: the processes that this one has started by now.
        folder: the run's.
    """

    def __init__(
        self, waiting: DeferredSignals, started: Callable[[], list["subprocess.Popen[bytes]"]], folder: Path
    ) -> None:
        self.waiting, self.started, self.folder = waiting, started, folder
        self.since = time.time()
        self._ends: tuple[int, int] | None = None

    def __enter__(self) -> "StartupWatchdog":
        if is_main_process():
            os.environ[FIRST_PROCESS] = str(os.getpid())
        if threading.current_thread() is threading.main_thread():
            self._listen()
        threading.Thread(target=self._watch, name="starting", daemon=True).start()
        if self._ends is not None and is_main_process():
            self.waiting.hold_back()
        return self

    def __exit__(self, *_: object) -> None:
        with self.waiting.lock:
            self.waiting.begun = True
        if self._ends is not None:
            self.waiting.let_through()
            signal.set_wakeup_fd(-1)
            for end in self._ends:
                os.close(end)

    def _listen(self) -> None:
        """Have the number of each signal written into a pipe, which is done at once and in C."""
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        if before == -1:
            self._ends = reads, writes
            return
        signal.set_wakeup_fd(before)  # an event loop's
        os.close(reads)
        os.close(writes)

    def _watch(self) -> None:
        """Look until the training has begun, or until there is a reason to end."""
        status: int | None = None
        ending = 0.0
        while status is None or time.monotonic() < ending:
            time.sleep(TICK)
            with self.waiting.lock:
                if self.waiting.begun:
                    return
                found = self._found() if status is None else None
            if found is not None:
                status = found
                ending = time.monotonic() + (
                    GRACE if is_main_process() or not is_child_process() else CHILD_GRACE
                )
        with self.waiting.lock:  # which from now on cannot begin
            if not self.waiting.begun:
                self._end(status)

    def _found(self) -> int | None:
        """How a process has ended, as `Popen.returncode` has it: -15 also where this one has got SIGTERM."""
        if self._ends is not None and select.select([self._ends[0]], [], [], 0)[0]:
            came = [one for one in os.read(self._ends[0], 4096) if one in self.waiting.ours]
            if came:
                return -came[0]
        if is_orphan():
            os._exit(1)
        for process in self.started():
            status = process.poll()  # of a process that was ended by a signal, too, before it had handlers
            if status is not None:
                process.returncode = 0  # or Lightning's observer kills this process before it can say why
                return 128 - status if status > 128 else status
        return None

    def _end(self, status: int) -> None:
        for process in self.started():
            process.kill()
        for worker in multiprocessing.active_children():
            worker.kill()
        code: Any = 1
        if -status in self.waiting.ours:
            code = 128 - status
            if is_main_process():
                try:
                    exit_messages.exit_after_signal(Stopped(-status), self.folder, training=True)
                except SystemExit as end:
                    code = end.code
        elif is_main_process():
            self._tell(exit_messages.lost_process_error(self.folder, self.since))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the main thread may be where no exception reaches it

    def _tell(self, error: LabError | None) -> None:
        if error is None:
            return
        print(f"Error: {error}", file=sys.stderr)
        try:
            record_failure(self.folder, error, str(error))
        except LabError:  # it may be the disk that is full
            return
