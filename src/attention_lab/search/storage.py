"""Open the database of a study: a file, or one on a server."""

import configparser
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from attention_lab.console_text import printable
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, first_line
from attention_lab.files.databases import PATIENCE, check_study

GRACE = 6
"""Number of heartbeats that a process may miss before it counts as killed."""
_REFUSED = (SQLAlchemyError, optuna.exceptions.StorageInternalError)


def storage_url(storage: object, folder: Path) -> str:
    """The URL of a storage given as a file, a URL, or None for `study.db`; a file's path becomes absolute.

    Raises:
        LabError: it is neither, or has a password, or is a file that processes cannot share, or that its URL
            would not name.
    """
    storage = str(folder / "study.db" if storage is None else storage)  # the name of a file may be a number
    shown = f"sweep.storage={storage.partition('://')[0]}://..."  # without its password
    try:
        url = make_url(storage) if "://" in storage else URL.create("sqlite", database=storage)
    except (SQLAlchemyError, ValueError):
        raise LabError(f"{shown} is neither a file nor the URL of a database") from None
    if url.password is not None or any("passw" in key for key in url.query):
        raise LabError(
            f"{shown}: leave the password out, which the files of each run would show; PostgreSQL also takes "
            "it from ~/.pgpass or PGPASSWORD, and MySQL from the file in ...?read_default_file=FILE"
        )
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise LabError(
                f"sweep.storage={storage}: processes cannot share it: give a file, as in sqlite:///study.db"
            )
        url = url.set(database=os.path.realpath(str(url.database)))
    text = url.render_as_string(hide_password=False)
    if make_url(text).database != url.database:  # before SQLAlchemy 2.1, for a path with ? or %
        raise LabError(f"sweep.storage={storage}: no URL can name this file: rename it, or its folder")
    return text


class _Storage(RDBStorage):
    """A storage whose heartbeats go on after one that could not be recorded, as while a server restarts."""

    def record_heartbeat(self, trial_id: int) -> None:
        """Record a heartbeat, or miss it: `GRACE` of them may be missed."""
        with suppress(optuna.exceptions.StorageInternalError):
            super().record_heartbeat(trial_id)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress Optuna's warnings that heartbeats and other features are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


@contextmanager
def blame_database(url: str) -> Iterator[None]:
    """Turn an error of the database at a URL, whose triggers may refuse any change, into a LabError."""
    try:
        yield
    except (*_REFUSED, AssertionError, UnboundLocalError) as error:
        # Optuna asserts that it could record the result of a trial, or reads a variable that it then lacks.
        refused = error if isinstance(error, _REFUSED) else error.__context__
        if not isinstance(refused, _REFUSED):
            raise
        reason = printable(first_line(refused.__cause__ or refused), 200)
        raise LabError(f"sweep.storage={make_url(url)!r}: {reason}") from None


def connect(url: str, heartbeat: int | None = None) -> RDBStorage:
    """Open the storage at a URL, creating it if it does not exist.

    Raises:
        LabError: it cannot be reached.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # we report failed trials ourselves, in one line
    # It warns of every trial with an old or odd distribution; we check the values ourselves. A filter by
    # module would miss these warnings: from Python 3.12 on, they name the module that called Optuna.
    for about in ("Choices for a categorical", "The distribution is specified", r"\w+Distribution has been"):
        warnings.filterwarnings("ignore", message=about)
    sqlite = make_url(url)
    file = Path(str(sqlite.database)) if sqlite.get_backend_name() == "sqlite" else None
    if file is not None:
        check_study(file, f"sweep.storage={sqlite!r}")
    # Without a pool, a file is closed after each use. A server may have closed a connection.
    of_file = {"connect_args": {"timeout": PATIENCE}, "poolclass": NullPool}
    of_server = {"pool_pre_ping": True}
    try:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        with without_warnings():
            return _Storage(
                url,
                engine_kwargs=of_server if file is None else of_file,
                heartbeat_interval=heartbeat,
                grace_period=None if heartbeat is None else GRACE * heartbeat,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=2),
            )
    except ImportError as error:
        missing = first_line(error.__cause__ or error)  # Optuna's own error does not say which
        raise LabError(
            f"sweep.storage={sqlite!r}: {missing}: install this driver of the database, or name another"
        ) from None
    except (SQLAlchemyError, OSError, *BAD_VALUE_ERRORS, configparser.Error) as error:
        # The last two are of drivers, about a parameter in the URL or the file that it names.
        raise LabError(f"sweep.storage={sqlite!r}: {first_line(error)}") from None
