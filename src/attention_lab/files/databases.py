"""Check an SQLite database that may come from others before a library opens it."""

import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

from attention_lab.errors import LabError, first_line
from attention_lab.files.regular_files import open_regular
from attention_lab.machine import usable_memory

PATIENCE = 60  # seconds to wait for another process that writes to the database
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names another file
_LONGEST = 10_000  # characters of the definition of a table; hundreds are usual
_LARGEST = 10 * _LONGEST  # bytes of it that are read; a damaged file may claim a gigabyte
_MOST_STEPS = 100_000  # of SQLite, for reading the definitions; Optuna needs 1,000 and MLflow 3,000
_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^]]*\]|/\*|--|\w+|\S""")
_OPERATORS = {"like", "glob", "regexp", "match", "virtual", "/*", "--", "|", "'", '"', "`", "["}
"""Found in no definition of Optuna or MLflow: searching and joining texts, comments, unclosed quotes."""
_REFUSAL = re.compile(
    r"create trigger \w+ before \w+ on \w+ for each row when [\w .!=]+ "
    r"begin select raise \( abort , '[^']*' \) ; end"
)
"""A trigger that only refuses a change, as MLflow has."""


MOST_ROWS = 5_000_000
"""Maximum number of rows of a study's tables; a trial has some hundreds."""
_ROW = 5_000  # bytes of memory that Optuna needs for each trial; in the file, a trial can take as few as 35
SHORT = 100
"""Bytes of each value that `_ROW` includes."""
_BYTE = 100  # bytes of memory for each further byte; in JSON, an empty list takes only 3
LONGEST_VALUE = 1 << 20
"""Maximum number of bytes of a value."""


def check_study(file: Path, name: str) -> None:
    """Reject a database that runs queries of its own, such as endless ones, or that does not fit in memory.

    Raises:
        LabError: it is damaged, its tables compute values, it has views or triggers that do more than refuse
            a change, it has a journal that is a link or names another file, or too many tables or rows.
    """
    if not file.is_file():
        return
    with _opened(file, name) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        queries = (_size_query(database, str(table)) for (table,) in tables)
        check_sizes((database.execute(query).fetchone() for query in queries), name, "file")


def check_sizes(sizes: Iterable[tuple[int, int]], name: str, what: str) -> None:
    """Reject a study that does not fit in memory.

    Args:
        sizes: for each table, the number of its rows, and of bytes in its values beyond the first `SHORT` of
            each.
        name: the option that gives the database, for the error.
        what: what to replace: a file or a study.

    Raises:
        LabError: the tables have too many rows or bytes.
    """
    memory = usable_memory()
    left = most = min(MOST_ROWS, memory // _ROW)
    for rows, further in sizes:
        left -= rows
        memory -= rows * _ROW + int(further) * _BYTE
        if left < 0:
            raise LabError(f"{name}: it has more than {most:,} rows: use another {what}")
        if memory < 0:
            raise LabError(f"{name}: it needs more memory than this machine has: use another {what}")


def _size_query(database: sqlite3.Connection, table: str) -> str:
    """The query for the size of a table: see `check_sizes`."""
    columns = [str(row[0]) for row in database.execute("SELECT name FROM pragma_table_info(?)", [table])]
    sizes = [f"coalesce(max(length(CAST({_quoted(one)} AS BLOB)) - {SHORT}, 0), 0)" for one in columns]
    return f"SELECT count(*), total({' + '.join(sizes)}) FROM {_quoted(table)}"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def read_texts(file: Path, query: str, values: Sequence[str]) -> list[str]:
    """The first column of a query's result; empty if there is no such database or table.

    Args:
        file: the database.
        query: the query, with a question mark for each of the values.
        values: the values.

    Raises:
        LabError: see `check_study`; the number of rows is not checked.
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
            if not _is_own_file(Path(f"{file.resolve()}{suffix}")):
                raise LabError(f"{name}: {file.name}{suffix} is a link, or not a file: remove it")
        _check_journal(Path(f"{file.resolve()}-journal"), name)
        uri = f"{file.resolve().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE)) as database:
            with _limited(database):
                _check_schema(database, name)
            _check_pages(database, name)
            yield database
    except UnicodeDecodeError:  # in the message of SQLite's own error, which has the name
        raise LabError(
            f"{name}: the database is damaged: a name in it is not UTF-8: use another file"
        ) from None
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise LabError(f"{name}: it has more tables than any study has: use another file") from None
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG:
            raise LabError(f"{name}: it has a text longer than any study has: use another file") from None
        raise LabError(f"{name}: {first_line(error)}") from None


def _is_own_file(path: Path) -> bool:
    """Whether SQLite may write to a path: nothing is there, or a regular file without further hard links."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink < 2


@contextmanager
def _limited(database: sqlite3.Connection) -> Iterator[None]:
    """Limit the time and memory of reading the definitions: in a damaged file, they may never end."""
    largest = database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
    database.set_progress_handler(lambda: True, _MOST_STEPS)  # it stops SQLite after so many steps
    try:
        yield
    finally:
        database.set_progress_handler(None, 0)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, largest)


def _check_schema(database: sqlite3.Connection, name: str) -> None:
    """Reject anything that computes values: it could take any memory and time, or change other values.

    MLflow has a generated column (AS), which is stored. One that is not stored is computed wherever it is
    mentioned: if each of several mentions the previous one twice, each doubles the memory of a query.
    """
    functions = {str(row[0]).lower() for row in database.execute("SELECT name FROM pragma_function_list")}
    for kind, title, sql in database.execute("SELECT type, name, CAST(sql AS TEXT) FROM sqlite_master"):
        tokens = [] if sql is None else [one.lower() for one in _TOKEN.findall(sql[: _LONGEST + 1])]
        names = [token.strip('"`[]') for token in tokens]
        calls = any(one in functions and after == "(" for one, after in pairwise(names))
        plain = (
            kind in ("table", "index")
            and not calls
            and _OPERATORS.isdisjoint(tokens)
            and tokens.count("as") == list(pairwise(tokens)).count((")", "stored"))
        )
        if len(sql or "") > _LONGEST or not (plain or _REFUSAL.fullmatch(" ".join(tokens))):
            shown = first_line(f"{kind} {title}")[:80]
            raise LabError(
                f"{name}: its {shown} runs code, which neither Optuna nor MLflow needs: use another file"
            )


def _check_pages(database: sqlite3.Connection, name: str) -> None:
    """Reject a damaged file: if rows share pages, they take any number of times the memory of the file."""
    database.execute("PRAGMA ignore_check_constraints = ON")  # they could take any time, and are not needed
    (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        problem = str(found).splitlines()[-1]  # below a heading
        raise LabError(f"{name}: the database is damaged: {problem}: use another file")


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
