"""The console's line for a job of a sweep: its settings, its progress, and in the end its result."""

import sys

from rich.cells import cell_len

from attention_lab.console_text import console_width

_TO_END = "\x1b[K"
"""Erases the rest of the line."""


class JobLine:
    """A line of standard output that is unfinished while a job runs.

    On a terminal, progress stands after the job's settings until the result takes its place; elsewhere no
    progress is shown. If jobs run at the same time, each line is printed as a whole when its job ends.
    """

    def __init__(self) -> None:
        self._settings = ""
        self._unprinted = ""
        self._shows_progress = False

    @property
    def unfinished(self) -> bool:
        """Whether the console's cursor is in this line."""
        return bool(self._settings) and not self._unprinted

    def begin(self, settings: str, *, alone: bool = True) -> None:
        """Print the settings.

        Args:
            settings: printable text.
            alone: whether no other job runs at the same time.
        """
        self._settings = f"{settings}  "
        self._unprinted = "" if alone else self._settings
        self._shows_progress = alone and sys.stdout.isatty() and cell_len(self._settings) < console_width()
        if alone:
            print(self._settings, end="", flush=True)

    def show(self, *progress: str) -> None:
        """Replace the progress on the line: print as many of these parts as there is room for."""
        if not self._shows_progress:
            return
        line, width = self._settings, console_width()
        for part in progress:
            if cell_len(line + part) >= width:
                break
            line += f"{part}  "
        print(f"\r{line.rstrip()}{_TO_END}", end="", flush=True)  # trailing spaces might wrap

    def end(self, result: str) -> None:
        """Print the result in place of the progress, and finish the line."""
        if self._shows_progress:
            print(f"\r{self._settings}{result}{_TO_END}", flush=True)
        else:
            print(f"{self._unprinted}{result}", flush=True)
        self._settings, self._unprinted, self._shows_progress = "", "", False


def jobs_run_in_turn(launcher: str) -> bool:
    """Whether a launcher of Hydra, given by the name of its class, runs one job after another."""
    return launcher.rpartition(".")[2] == "BasicLauncher"


JOB_LINE = JobLine()
"""The job line of this process."""
