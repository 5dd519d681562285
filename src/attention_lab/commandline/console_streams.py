"""Standard input and output that a program can rely on, however it was started.

A console decides nothing about a run: where a stream is closed, its reader has gone or it has no such
characters, files are written as usual and the exit status is that of the work.
"""

import codecs
import io
import os
import sys
from typing import Any, TextIO

_STREAMS = ((0, "stdin"), (1, "stdout"), (2, "stderr"))


def prepare() -> None:
    """Make the three standard streams usable; to be called first of all by a program.

    Descriptors that were closed are opened on the null device, so that no file gets their numbers. Under a
    locale that knows ASCII alone the program begins anew in Python's UTF-8 mode, in which files and their
    names are UTF-8; what a console cannot show is escaped.

    Raises:
        SystemExit: an argument or the name of the current folder is not UTF-8.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STREAMS[-1][0]:
        os.set_inheritable(number, True)
    os.close(number)
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.environ.setdefault("PYTHONIOENCODING", "ascii:backslashreplace")  # the console stays as it is
        os.environ["PYTHONUTF8"] = "1"  # for the processes that this one starts
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for number, name in _STREAMS:
        setattr(sys, name, _opened(number, name, getattr(sys, name)))
    for text in (*sys.argv, os.getcwd()):  # noqa: PTH109  # a path hides nothing of it
        if not _is_utf8(text):
            sys.exit(f"Error: {text} is not UTF-8: choose another name")


def _opened(number: int, name: str, given: TextIO | None) -> TextIO:
    """A stream in the place of the one that Python has made, or has not for want of a descriptor."""
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
    """A descriptor that is written to for as long as somebody reads; what is written later goes nowhere."""

    name: Any

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write bytes. Raises OSError, once, if that fails for any other reason than a missing reader."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self._give_up()
            return memoryview(data).nbytes
        except OSError as error:
            self._give_up()  # or it would fail again where Python ends
            raise OSError(error.errno, error.strerror, self.name) from None

    def _give_up(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
