"""Remember the lengths of a run's log files and truncate them on resume, so that no step is logged twice."""

import csv
import io
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytorch_lightning.loggers import CSVLogger, Logger

from attention_lab.callbacks.trackers.tensorboard import RunLogger
from attention_lab.reading import is_file, open_regular
from attention_lab.tensorboard_plugin.event_files import event_files
from attention_lab.writing import remove

Marks = dict[str, int]
"""The length of each log file by name, in bytes or, for a table, in rows."""


def mark(loggers: Iterable[Logger]) -> Marks:
    """Flush the log files and return their lengths."""
    marks: Marks = {}
    for logger in loggers:
        if isinstance(logger, RunLogger):
            logger.finalize("")  # flushes without closing
            files = filter(is_file, event_files(Path(logger.log_dir)))
            marks |= {path.name: path.stat().st_size for path in files}
        elif isinstance(logger, CSVLogger):
            logger.save()
            table = _table(logger)
            marks[table.name] = len(_rows(table)) if table.is_file() else 0
    return marks


def rewind(loggers: Iterable[Logger], marks: Mapping[str, int]) -> None:
    """Truncate the log files to the marked lengths; remove event files that have no mark or are no files."""
    for logger in loggers:
        if isinstance(logger, RunLogger):
            for path in event_files(Path(logger.log_dir)):
                if path.name in marks and is_file(path):
                    os.truncate(path, min(path.stat().st_size, marks[path.name]))
                else:
                    remove(path)
        elif isinstance(logger, CSVLogger):
            table = _table(logger)
            rows = _rows(table)[: marks.get(table.name, 0)] if table.is_file() else []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns that it removes the file, but writes it again
                logger.experiment.metrics = rows


def _table(logger: CSVLogger) -> Path:
    return Path(logger.log_dir) / "metrics.csv"


def _rows(table: Path) -> list[dict[str, float]]:
    """The rows of the table, without empty fields."""
    with io.TextIOWrapper(open_regular(table), encoding="utf-8", newline="") as file:
        return [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]  # type: ignore[misc]
