"""Check an SQLite database from others before a library opens it."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from attention_lab.errors import LabError, first_line

PATIENCE = 60  # seconds to wait for another process that writes to the database


def check_no_queries(file: Path, name: str) -> None:
    """Reject a database that runs queries of its own, such as endless ones; it need not exist.

    Args:
        file: the database.
        name: its name in messages.

    Raises:
        LabError: it is damaged, or has views or triggers.
    """
    if not file.is_file():
        return
    with _opened(file, name) as database:
        schema = "SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')"
        if database.execute(schema).fetchone() is not None:
            raise LabError(f"{name}: it has a view or trigger, which no study has: use another file")


def read_texts(file: Path, query: str, values: Sequence[str]) -> list[str]:
    """The first column of a query's result; empty if there is no such database or table.

    Args:
        file: the database.
        query: the query, with a question mark for each of the values.
        values: the values.

    Raises:
        LabError: it is damaged.
    """
    if not file.is_file():
        return []
    with _opened(file, str(file)) as database:
        try:
            return [str(row[0]) for row in database.execute(query, values).fetchmany(100)]
        except sqlite3.OperationalError:
            return []


@contextmanager
def _opened(file: Path, name: str) -> Iterator[sqlite3.Connection]:
    try:
        uri = f"{file.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as database:
            yield database
    except sqlite3.Error as error:
        raise LabError(f"{name}: {first_line(error)}") from None
