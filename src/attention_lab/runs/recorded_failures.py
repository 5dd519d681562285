"""Why a run failed, in the `error.txt` of its folder."""

import traceback
from pathlib import Path

from attention_lab.console_text import one_line
from attention_lab.errors import LabError, named_line
from attention_lab.files.regular_files import is_file, open_regular
from attention_lab.files.run_files import ERROR
from attention_lab.files.writing import write_atomically

_LONGEST = 300  # bytes of a reason


def record_failure(folder: Path, error: BaseException, reason: str = "") -> str:
    """Write `error.txt` to a run's folder; returns the reason, which is its first line.

    Args:
        folder: the run's folder.
        error: the exception; its traceback is written if no reason is given.
        reason: one line that fully explains the failure.
    """
    if reason:
        write_atomically(folder / ERROR, f"{reason}\n")
        return reason
    reason = named_line(error)
    write_atomically(folder / ERROR, f"{reason}\n{''.join(traceback.format_exception(error))}")
    return reason


def read_failure(folder: Path) -> str | None:
    """Why a run failed, from its `error.txt`; None if it did not."""
    path = folder / ERROR
    return read_reason(path) if is_file(path) else None


def read_reason(path: Path) -> str:
    """The first line of `error.txt` or `pruned.txt`. Raises LabError if it cannot be read."""
    try:
        with open_regular(path) as file:
            line = file.readline(_LONGEST).decode("utf-8", "replace").strip()
        return one_line(line) if line else "no reason was recorded"
    except OSError as error:
        raise LabError(f"{path.name} cannot be read: {error.strerror}") from None
