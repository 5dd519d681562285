"""A run's `train.log`: its console output, line by line with the time, and the versions it ran with."""

import io
import logging
import platform
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attention_lab.commandline.flags import versions
from attention_lab.console_text import without_controls

LOGGER = "attention_lab.console"
"""The logger that conf/hydra/job_logging/attention_lab.yaml sends only to the file."""
PACKAGES = ("attention-lab", "torch", "pytorch-lightning", "hydra-core", "torchmetrics", "tensorboard")
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@contextmanager
def logged_console(overrides: Sequence[str], *, output: bool = True) -> Iterator[None]:
    """Copy what is printed inside to the log file, after one line of versions and one of options.

    Args:
        overrides: the options of the command line.
        output: whether standard output is logged too, besides standard error.
    """
    log = logging.getLogger(LOGGER)
    python = f"Python {platform.python_version()}"
    # platform.platform() would start a process
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    log.info("%s, on %s", ", ".join((python, *versions(PACKAGES))), system)
    log.info("Options: %s", without_controls(" ".join(overrides)) or "none")
    streams = sys.stdout, sys.stderr
    try:
        if output:
            sys.stdout = _Logged(sys.stdout, log, logging.INFO)
        sys.stderr = _Logged(sys.stderr, log, logging.WARNING)
        yield
    except SystemExit as end:
        if isinstance(end.code, str):
            log.error(end.code)
        raise
    except Exception:  # it is raised again
        log.error(traceback.format_exc().rstrip())
        raise
    finally:
        sys.stdout, sys.stderr = streams


class LogFile(logging.FileHandler):
    """The file of the log. If it cannot be written, whatever writes the run's results reports why, once."""

    _printing = False

    def _open(self) -> io.TextIOWrapper:
        """A stream without a buffer: a signal's handler may log while a line is being written."""
        file = io.FileIO(self.baseFilename, self.mode)
        return io.TextIOWrapper(file, self.encoding, self.errors, write_through=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless it is what is printed about an error in writing another."""
        if not self._printing:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name is logging's
        """Print the traceback of an error in formatting a message, but not in writing it."""
        if isinstance(sys.exception(), OSError):
            return
        self._printing = True
        try:
            super().handleError(record)
        finally:
            self._printing = False


class _Logged:
    """A stream that logs each line when it is complete, without colours and progress bars."""

    def __init__(self, stream: Any, log: logging.Logger, level: int) -> None:
        self._stream, self._log, self._level = stream, log, level
        self._line = ""

    def write(self, text: str) -> int:
        """Write the text, and log the lines that it completes."""
        written: int = self._stream.write(text)
        *lines, last = (self._line + text).split("\n")
        for line in lines:
            if shown := _drawn(line).rstrip():
                self._log.log(self._level, shown)
        self._line = _drawn(last)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _drawn(line: str) -> str:
    """A line without colours, and without the text that a carriage return has overwritten."""
    return _STYLE.sub("", line.rpartition("\r")[2])
