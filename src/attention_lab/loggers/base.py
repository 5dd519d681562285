"""What our loggers add to Lightning's: settings, pictures, final results and a single record per run."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from PIL.Image import Image
from pytorch_lightning.loggers import Logger

from attention_lab.files.regular_files import read_regular
from attention_lab.files.writing import write_atomically

Charts = Mapping[str, Mapping[str, Sequence[str]]]
"""`{category: {title: metrics}}`; each metric is a line of the chart."""
_LONGEST_ID = 100  # largest size in bytes of a file with a run's id


class RunLogger(Logger, ABC):
    """A logger that shows everything about a run: its settings, metrics, pictures and final results.

    Lightning finalizes a logger after fitting and again after testing; a logger keeps one record for both
    and ends it in `close`.
    """

    @abstractmethod
    def log_settings(self, settings: Mapping[str, Any], metrics: Sequence[str], first: Sequence[str]) -> None:
        """Log the hyperparameters of a new run.

        Args:
            settings: plain values by their dotted path.
            metrics: names of the metrics by which runs are compared.
            first: settings that distinguish the run from others, the most important first.
        """

    @abstractmethod
    def log_picture(self, tag: str, picture: Image, step: int) -> None:
        """Log a picture under a name that is the same at all steps."""

    def log_charts(self, charts: Charts) -> None:
        """Set up charts with several lines; does nothing if the logger's own pages suffice."""

    @abstractmethod
    def log_results(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the final metrics, including those that Lightning does not log."""

    @abstractmethod
    def how_to_view(self) -> tuple[str, str] | None:
        """The logger's name, and the command or address that shows the record; None if there is none."""

    @abstractmethod
    def continue_run(self) -> None:
        """Append to the record that the run in this folder started before it was interrupted."""

    @abstractmethod
    def close(self) -> None:
        """End the record."""


def run_loggers(trainer: pl.Trainer) -> list[RunLogger]:
    """The run's loggers; none on a process that does not write."""
    return [one for one in trainer.loggers if isinstance(one, RunLogger) and trainer.is_global_zero]


def run_title(folder: Path) -> str:
    """What a logger calls the run in a folder: the last two parts of its path."""
    return "/".join(folder.absolute().parts[-2:])


def save_run_id(path: Path, run_id: str) -> None:
    """Save the id that a logger gave to a run, so that a resumed run appends to the same record."""
    write_atomically(path, f"{run_id}\n")


def read_run_id(path: Path, pattern: str) -> str | None:
    """The run id written by `save_run_id`; None if the file is missing or contains anything else."""
    with suppress(OSError, UnicodeDecodeError):
        found = read_regular(path, _LONGEST_ID).decode("ascii").strip()
        return found if re.fullmatch(pattern, found) else None
    return None
