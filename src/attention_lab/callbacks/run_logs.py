"""Remember the lengths of a run's log files and truncate them on resume, so that no step is logged twice."""

import csv
import io
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from pytorch_lightning.loggers import CSVLogger, Logger

from attention_lab.console_text import one_line
from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_file, open_regular
from attention_lab.files.writing import remove
from attention_lab.loggers.tensorboard import TensorBoardRunLogger
from attention_lab.machine import usable_memory
from attention_lab.tensorboard_plugin.event_files import event_files

_MEMORY = 100
"""Bytes of memory that a table takes for each byte of its file, at most."""

Marks = dict[str, int]
"""The length of each log file by name, in bytes or, for a table, in rows."""


def mark(loggers: Iterable[Logger]) -> Marks:
    """Flush the log files and return their lengths."""
    marks: Marks = {}
    for logger in loggers:
        if isinstance(logger, TensorBoardRunLogger):
            logger.finalize("")  # flushes without closing
            files = filter(is_file, event_files(Path(logger.log_dir)))
            marks |= {path.name: path.stat().st_size for path in files}
        elif isinstance(logger, CSVLogger):
            logger.save()
            table = _table(logger)
            marks[table.name] = sum(1 for _ in _rows(table)) if table.is_file() else 0
    return marks


def rewind(loggers: Iterable[Logger], marks: Mapping[str, int]) -> None:
    """Truncate the log files to the marked lengths; remove event files that have no mark or are not files.

    Raises:
        LabError: a table is damaged, or its rows do not fit in memory.
    """
    for logger in loggers:
        if isinstance(logger, TensorBoardRunLogger):
            for path in event_files(Path(logger.log_dir)):
                if path.name in marks and is_file(path):
                    os.truncate(path, min(path.stat().st_size, marks[path.name]))
                else:
                    remove(path)
        elif isinstance(logger, CSVLogger):
            table = _table(logger)
            rows = _first_rows(table, marks.get(table.name, 0)) if table.is_file() else []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns that it removes the file, but writes it again
                logger.experiment.metrics = rows


def _table(logger: CSVLogger) -> Path:
    return Path(logger.log_dir) / "metrics.csv"


def _first_rows(table: Path, count: int) -> list[dict[str, str]]:
    """The first rows of a table, which may come from others, without empty fields."""
    try:
        rows = list(islice(_rows(table, usable_memory() // _MEMORY), count))
        # The logger writes every row with all columns, as they are in a table of its own.
        if len(rows) * len(set().union(*rows)) > table.stat().st_size:
            raise ValueError("its rows are shorter than its header")
        return rows
    except OSError as error:
        raise LabError(f"{table} cannot be read: {error.strerror}") from None
    except (csv.Error, ValueError) as error:
        raise LabError(f"{table} cannot be read: {one_line(error)}") from None


def _rows(table: Path, most: int | None = None) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of at most `most` bytes, without empty fields."""
    with io.TextIOWrapper(open_regular(table, most), encoding="utf-8", newline="") as file:
        rows = filter(None, csv.reader(file))
        header = next(rows, [])
        for fields in rows:  # unlike DictReader, which takes time for each column that a row lacks
            yield {key: value for key, value in zip(header, fields, strict=False) if value}
