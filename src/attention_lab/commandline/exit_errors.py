"""End the program with one line instead of a traceback."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from hydra._internal import utils
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from attention_lab.commandline.other_names import OPTIONS
from attention_lab.console_text import console_message, one_line
from attention_lab.errors import LabError, first_line
from attention_lab.files.writing import failed_write


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the program with the message of a LabError or a Hydra error; a context manager or decorator.

    Hydra would print a traceback or several lines, or only a warning for an exception in a callback.
    """
    try:
        yield
    except LabError as error:
        sys.exit(console_message("Error", error))
    except (HydraException, OmegaConfBaseException) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":  # as in Hydra, the complete stack trace
            raise
        sys.exit(console_message("Error", reason_of(error)))


def reason_of(error: Exception) -> str:
    """An error's message on one line, without the lines that Hydra and OmegaConf add about their types."""
    if isinstance(error, LabError):
        return " ".join(str(error).splitlines())  # a line feed in the message is part of a name
    if isinstance(error, HydraException):
        if override := re.match(r"Could not override '([^']+)'", str(error)):
            key = override[1]
            if key.startswith("hydra"):
                return f"there is no option {key}" + (
                    f"; did you mean {OPTIONS[key]}?" if key in OPTIONS else ""
                )
            # Only the first choice is known when options are checked; see `option_checks`.
            return (
                f"there is no option {key} with some of the choices of this sweep: leave it out, or "
                "sweep only choices that have it"
            )
        if error.__cause__ is None:
            return one_line(error).removeprefix("Error: ")
        return f"{first_line(error).removeprefix('Error ').removesuffix(':')}: {first_line(error.__cause__)}"
    option = error.full_key if isinstance(error, OmegaConfBaseException) else None
    return f"{option}: {first_line(error)}" if option else first_line(error)


@cache
def shorten_reports(clean_up: Callable[[], None]) -> None:
    """Let Hydra report its own errors in one line, too, where it catches them before `main` could.

    Args:
        clean_up: what to do first if Hydra could not write the folder of a run, sweep or job.
    """
    report = utils.run_and_report

    def run_and_report(func: Any) -> Any:
        return report(errors_in_one_line()(_written_by_hydra(clean_up)(func)))

    utils.run_and_report = run_and_report


@contextmanager
def _written_by_hydra(clean_up: Callable[[], None]) -> Iterator[None]:
    """Turn a failure to write the folder of a run, sweep or job, as on a full disk, into a LabError."""
    try:
        yield
    except OSError as error:
        failed = failed_write(error, "the run's folder")
        if failed is None or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        clean_up()
        raise failed from None
