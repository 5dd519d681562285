"""Make the standard streams usable, no matter how the program was started.

A run does not depend on its console: if a stream is closed, has no reader, or cannot encode a character,
files are still written and the exit status is that of the run.
"""

import codecs
import io
import os
import sys
from typing import Any, TextIO

_STREAMS = ((0, "stdin"), (1, "stdout"), (2, "stderr"))


def prepare() -> None:
    """Make the three standard streams usable; call this first in a program.

    Closed descriptors are opened on the null device, so that no file gets their numbers. In an ASCII locale
    the program restarts in Python's UTF-8 mode, in which files and their names are UTF-8; characters that the
    console cannot show are escaped.

    Raises:
        SystemExit: an argument or the name of the current folder is not UTF-8.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STREAMS[-1][0]:
        os.set_inheritable(number, True)
    os.close(number)
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.environ.setdefault("PYTHONIOENCODING", "ascii:backslashreplace")  # the console stays as it is
        os.environ["PYTHONUTF8"] = "1"  # for child processes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for number, name in _STREAMS:
        setattr(sys, name, _opened(number, name, getattr(sys, name)))
    for text in (*sys.argv, os.getcwd()):  # noqa: PTH109  # only the text is needed
        if not _is_utf8(text):
            sys.exit(f"Error: {text} is not UTF-8: choose another name")


def _opened(number: int, name: str, given: TextIO | None) -> TextIO:
    """A replacement for a standard stream, which is None if its descriptor was closed at the start."""
    if name == "stdin":
        return open(number, encoding="utf-8", closefd=False) if given is None else given
    output = Output(number, "wb", closefd=False)
    output.name = f"<{name}>"
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding="utf-8" if given is None else given.encoding,
        errors="backslashreplace",
        line_buffering=bool(getattr(given, "line_buffering", False)),
        write_through=bool(getattr(given, "write_through", False)),
    )


class Output(io.FileIO):
    """A raw output stream that discards everything written after its reader has gone."""

    name: Any

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write bytes. Raises OSError, once, if that fails for another reason than a missing reader."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self._discard_output()
            return memoryview(data).nbytes
        except OSError as error:
            self._discard_output()  # or it would fail again when Python exits
            raise OSError(error.errno, error.strerror, self.name) from None

    def _discard_output(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
