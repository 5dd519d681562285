"""Make the standard streams usable, no matter how the program was started.

A run does not depend on its console: even if a stream is closed, has no reader or cannot encode a character,
the run writes its files and its exit status is correct.
"""

import codecs
import io
import os
import sys
from typing import Any, TextIO

from attention_lab.console_text import console_message
from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_utf8
from attention_lab.machine import check_system

_STANDARD = (0, 1, 2)
HYDRA_HINT = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
"""The line that Hydra prints below the traceback of an error in the user's own class."""
_LONGEST_LINE = 1000  # bytes of an unfinished line that are kept


def prepare() -> None:
    """Make the three standard streams usable; call this first in a program.

    Closed descriptors are opened on the null device, so that no file gets their numbers. In an ASCII locale
    the program restarts in Python's UTF-8 mode, in which files and their names are UTF-8; characters that the
    console cannot show are escaped.

    Raises:
        SystemExit: this is Windows; the current folder has been removed; or its name or an argument is not
            UTF-8.
    """
    try:
        check_system()
    except LabError as error:
        sys.exit(console_message("Error", error))
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD[-1]:
        os.set_inheritable(number, True)
    os.close(number)
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.environ.setdefault("PYTHONIOENCODING", "ascii:backslashreplace")  # the console stays as it is
        os.environ["PYTHONUTF8"] = "1"  # for child processes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    sys.stdin = _opened_input(sys.stdin)
    stdout = Output(1)
    sys.stdout = _opened_output("stdout", stdout, sys.stdout)
    sys.stderr = _opened_output("stderr", Output(2, above=stdout), sys.stderr)
    try:
        here = os.getcwd()  # noqa: PTH109  # only the text is needed
    except FileNotFoundError:
        sys.exit(console_message("Error", "the current folder no longer exists: change to another one"))
    for text in (*sys.argv, here):
        if not is_utf8(text):
            shown = text.encode(errors="backslashreplace").decode()
            sys.exit(console_message("Error", f"{shown} is not UTF-8: choose another name"))


def _opened_input(given: TextIO | None) -> TextIO:
    """Standard input, which is None if its descriptor was closed at the start."""
    return open(0, encoding="utf-8", closefd=False) if given is None else given


def _opened_output(name: str, output: "Output", given: TextIO | None) -> TextIO:
    """A replacement for a standard output stream, which is None if its descriptor was closed at the start."""
    output.name = f"<{name}>"
    return Text(
        io.BufferedWriter(output),
        encoding="utf-8" if given is None else given.encoding,
        errors="backslashreplace",
        line_buffering=any(getattr(given, name, False) for name in ("line_buffering", "write_through")),
    )


class Text(io.TextIOWrapper):
    """A text stream that leaves out `HYDRA_HINT`: the last line of a traceback should be the error."""

    def write(self, text: str) -> int:
        """Write the text."""
        return len(text) if text.strip() == HYDRA_HINT else super().write(text)


class Output(io.FileIO):
    """A raw output stream that discards everything written after its reader has gone.

    Args:
        descriptor: the file descriptor, which closing the stream leaves open.
        above: another stream; if both go to the same place and its last line is unfinished, like a progress
            bar or the line of a running job of a sweep, this stream's lines are written above the unfinished
            one.
    """

    name: Any

    def __init__(self, descriptor: int, above: "Output | None" = None) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._above, self._unfinished = above, b""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        """Write bytes. Raises OSError, but only once, if that fails; a missing reader is not an error."""
        content = bytes(data)
        line = b"" if self._above is None else self._above._unfinished
        moved = line and content.endswith(b"\n") and self._shares_console()
        if moved:
            self._write(b"\r\x1b[K" if self.isatty() else b"\n")
        written = self._write(content)
        if moved:
            self._write(line)
        last = (self._unfinished + content[:written]).rpartition(b"\n")[2]
        self._unfinished = last.rpartition(b"\r")[2][-_LONGEST_LINE:]  # as drawn last
        return written

    def _shares_console(self) -> bool:
        try:
            return self._above is not None and os.path.sameopenfile(self.fileno(), self._above.fileno())
        except OSError:
            return False

    def _write(self, data: bytes) -> int | None:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._discard_output()
            return len(data)
        except OSError as error:
            self._discard_output()  # otherwise it would fail again when Python exits
            raise OSError(error.errno, error.strerror, self.name) from None

    def _discard_output(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)
