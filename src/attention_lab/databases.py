"""Check an SQLite database from others before a library opens it."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from attention_lab.errors import LabError, first_line
from attention_lab.reading import open_regular

PATIENCE = 60  # seconds to wait for another process that writes to the database
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names another file


def check_no_queries(file: Path, name: str) -> None:
    """Reject a database that runs queries of its own, such as endless ones; it need not exist.

    Args:
        file: the database.
        name: its name in messages.

    Raises:
        LabError: it is damaged, or has views, triggers, or a journal that is a link or names another file.
    """
    if file.is_file():
        with _opened(file, name):
            pass


def read_texts(file: Path, query: str, values: Sequence[str]) -> list[str]:
    """The first column of a query's result; empty if there is no such database or table.

    Args:
        file: the database.
        query: the query, with a question mark for each of the values.
        values: the values.

    Raises:
        LabError: see `check_no_queries`.
    """
    if not file.is_file():
        return []
    with _opened(file, str(file)) as database:
        try:
            return [str(row[0]) for row in database.execute(query, values).fetchmany(100)]
        except sqlite3.OperationalError as error:
            if not str(error).startswith("no such"):
                raise
            return []


@contextmanager
def _opened(file: Path, name: str) -> Iterator[sqlite3.Connection]:
    """The checked database; if a process was killed while it wrote, this undoes what it had written."""
    try:
        for suffix in ("-journal", "-wal", "-shm"):
            if Path(f"{file.resolve()}{suffix}").is_symlink():  # SQLite would fail at the first change
                raise LabError(f"{name}: {file.name}{suffix} is a link: remove it")
        _check_journal(Path(f"{file.resolve()}-journal"), name)
        uri = f"{file.resolve().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as database:
            schema = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')"
            if database.execute(schema).fetchone() is not None:
                raise LabError(f"{name}: it has a view or trigger, which we never create: use another file")
            yield database
    except sqlite3.Error as error:
        raise LabError(f"{name}: {first_line(error)}") from None


def _check_journal(journal: Path, name: str) -> None:
    """Reject a journal that names another file, which SQLite would delete, wherever it is.

    SQLite itself writes such a name only if several databases change at once.
    """
    try:
        with open_regular(journal) as file:
            file.seek(-min(len(_MAGIC), file.seek(0, os.SEEK_END)), os.SEEK_END)
            if file.read() == _MAGIC:
                raise LabError(f"{name}: its journal names another file: remove {journal.name}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"{name}: {journal.name} cannot be read: {error.strerror}") from None
