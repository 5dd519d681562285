"""Log a run to MLflow."""

import logging
import os
import re
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies, url2pathname

from PIL.Image import Image
from pytorch_lightning.loggers import MLFlowLogger
from pytorch_lightning.loggers.logger import rank_zero_experiment  # type: ignore[attr-defined]
from pytorch_lightning.utilities import rank_zero_only

from attention_lab.errors import LabError, first_line
from attention_lab.files.databases import read_texts
from attention_lab.files.paths import is_inside, short_path
from attention_lab.loggers.base import RunLogger, read_run_id, run_title, save_run_id

RUN_ID = "mlflow_run_id.txt"
"""The file in the run's folder with the id of its record."""
DATABASE = "mlflow.db"
"""The database in the run's folder, used if no other place for the records is given."""
_OF_EXPERIMENT = "SELECT artifact_location FROM experiments WHERE name = ?"
_OF_RUN = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
_LIBRARIES = ("mlflow", "sqlalchemy", "alembic")
"""The packages whose errors end a run in one line: MLflow opens a database with the other two."""
_SQLITE, _SERVERS = "sqlite:///", ("http://", "https://")
NOTE = "mlflow.note.content"
"""The tag that MLflow shows as a run's description."""
_DATABASE_LOG = "mlflow.store.db.utils"
"""Where MLflow logs an error of the database, with its traceback, before raising it; ours replaces it."""
_PROCESS_URI = os.environ.get("MLFLOW_TRACKING_URI")  # read here, since MLflow sets it for later runs


class MLFlowRunLogger(MLFlowLogger, RunLogger):
    """Log a run to MLflow, with hyperparameters, heatmaps and final metrics.

    Args:
        folder: the run's folder.
        experiment_name: the experiment that the run belongs to.
        tracking_uri: a server or a database that holds the records of many runs, such as
            `http://localhost:5000` or `sqlite:////data/mlflow.db`. None: the environment variable
            `MLFLOW_TRACKING_URI`, else `mlflow.db` in the run's folder.
        tags: words to find the run by; each becomes a tag with the value "true".
        notes: a description.

    Raises:
        LabError: MLflow is missing or too old, rejects an option or cannot reach its server, or the run's own
            database would not be in its folder, or keeps files outside of it.
    """

    def __init__(
        self,
        folder: str,
        experiment_name: str = "attention-lab",
        tracking_uri: str | None = None,
        tags: Sequence[str] = (),
        notes: str | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        given = tracking_uri or _PROCESS_URI
        uri = given or f"{_SQLITE}{self.folder / DATABASE}"
        self._prefix, self._run_id, self._experiment_id, self._checkpoint_callback = "", None, None, None
        self._initialized = self._own = self._checked = False
        if rank_zero_only.rank:  # type: ignore[attr-defined]
            return  # only the first process opens the database
        self._own = not given
        if self._own:
            _check_name(self.folder)
            _check_places(self.folder, _OF_EXPERIMENT, experiment_name)
        else:
            _check_opens(uri)
            _check_answers(uri)
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        if uri.startswith(_SERVERS):  # MLflow would print the page of the run after each stage
            os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        try:
            with self._one_line():
                super().__init__(
                    experiment_name=experiment_name,
                    run_name=run_title(self.folder),
                    tracking_uri=uri,
                    tags=dict.fromkeys(tags, "true") | ({NOTE: notes} if notes else {}),
                    artifact_location=_files_beside(uri),
                )
        except ImportError:
            raise LabError("logger=mlflow needs MLflow 3 or newer: pip install -e '.[loggers]'") from None

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The client of MLflow; the record is opened on first use.

        Raises:
            LabError: the run's own database keeps the files of the record outside the run's folder.
        """
        client = super().experiment
        if self._own and not self._checked:
            # Only MLflow knows which row of a database from others it reads.
            _check_place(self.folder, str(client.get_run(self._run_id).info.artifact_uri))
            self._checked = True
        return client

    @rank_zero_only
    def log_settings(self, settings: Mapping[str, Any], metrics: Sequence[str], first: Sequence[str]) -> None:
        """Log the hyperparameters, and save the id of the record."""
        with self._one_line():
            self.log_hyperparams(dict(settings))
            save_run_id(self.folder / RUN_ID, str(self.run_id))

    @rank_zero_only
    def log_picture(self, tag: str, picture: Image, step: int) -> None:
        """Log a picture; MLflow shows its steps on a slider."""
        with self._one_line():
            self.experiment.log_image(self.run_id, picture, key=tag, step=step)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log metrics of training. Raises LabError if the server or the database refuses them."""
        with self._one_line():
            super().log_metrics(metrics, step)

    @rank_zero_only
    def finalize(self, status: str = "success") -> None:
        """End the record."""
        with self._one_line():
            super().finalize(status)

    @rank_zero_only
    def log_results(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the final metrics."""
        self.log_metrics(metrics, step)

    def how_to_view(self) -> tuple[str, str]:
        """The page of the run on its server, or the command that serves its database."""
        given = str(self._tracking_uri)
        uri = _without_account(f"{_SQLITE}{short_path(self.folder)}/{DATABASE}" if self._own else given)
        if uri.startswith(_SERVERS):
            return "MLflow", f"{uri.rstrip('/')}/#/experiments/{self.experiment_id}/runs/{self.run_id}"
        is_database = "sql" in uri.partition(":")[0]  # else Databricks, whose page MLflow prints
        return "MLflow", f"mlflow ui --backend-store-uri {quote(uri)}" if is_database else uri

    def continue_run(self) -> None:
        """Append to the record of the interrupted run."""
        self._run_id = read_run_id(self.folder / RUN_ID, "[0-9a-f]{32}")
        if self._own and self._run_id:
            _check_places(self.folder, _OF_RUN, self._run_id)
        with self._one_line():
            _ = self.experiment  # opens the record

    def close(self) -> None:
        """Do nothing: Lightning ends the record after each stage, and MLflow opens it again."""

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turn an error of MLflow, or of what it opens a database with, into one line without an account."""
        logging.getLogger(_DATABASE_LOG).setLevel(logging.CRITICAL + 1)
        try:
            yield
        except Exception as error:  # the libraries are optional, and slow to import
            if type(error).__module__.partition(".")[0] not in _LIBRARIES:
                raise
            message = " ".join(str(error).split()).partition(" [SQL: ")[0]
            place = f"{self.folder / DATABASE}: " if self._own else ""
            raise LabError(f"logger=mlflow: {place}{_without_account(message)}") from None


def _without_account(text: str) -> str:
    """A text without the user and password in the addresses of servers."""
    return re.sub("//[^/@ ]*@", "//", text)


def _check_opens(uri: str) -> None:
    """Reject a database that SQLite cannot open: MLflow would try for two minutes, with many warnings."""
    if (file := _sqlite_file(uri)) is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        sqlite3.connect(file).close()
    except (OSError, sqlite3.Error) as error:
        raise LabError(f"logger=mlflow: {uri}: {first_line(error)}") from None


def _files_beside(uri: str) -> str | None:
    """The folder for the files of a new experiment, beside an SQLite database; None if the server chooses.

    With a database, MLflow would keep the files in `mlruns` in the working directory.
    """
    file = _sqlite_file(uri)
    return None if file is None else str(file.absolute().parent / "mlflow_artifacts")


def _sqlite_file(uri: str) -> Path | None:
    """The file of an SQLite database; None for other databases and for servers."""
    return Path(uri.removeprefix(_SQLITE).partition("?")[0]) if uri.startswith(_SQLITE) else None


def _check_answers(uri: str) -> None:
    """Reject a server that is not running: MLflow would try for minutes, with many warnings."""
    url = urlparse(uri)
    if not uri.startswith(_SERVERS) or {url.scheme, "all"} & getproxies().keys():
        return
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        socket.create_connection((url.hostname, port), timeout=10).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LabError(f"logger=mlflow: no server answers at {_without_account(uri)}: {reason}") from None


def _check_name(folder: Path) -> None:
    """Reject a folder, perhaps from others, whose name would be read as another in a URL: `a%2F..%2Fb`."""
    if found := re.search("[?%#]", str(folder)):
        raise LabError(f"logger=mlflow: MLflow misreads the {found[0]} in {folder}: rename the folder")


def _check_places(folder: Path, query: str, value: str) -> None:
    """Reject a database in the run's folder, perhaps from others, that keeps files outside of it."""
    for place in read_texts(folder / DATABASE, query, [value]):
        _check_place(folder, place)


def _check_place(folder: Path, place: str) -> None:
    path = _local_path(place)
    if path is None or not is_inside(path, folder):
        raise LabError(
            f"{folder / DATABASE} keeps files in {place[:200]}, outside the run's folder: remove it to start "
            "a new one"
        )


def _local_path(place: str) -> Path | None:
    """The path that MLflow reads from the location of files; None if it is not absolute, or not local."""
    url = urlparse(place)
    path = Path(url2pathname(url.path if place.startswith("file:") else place))
    known = url.scheme in ("", "file") and "\0" not in place
    return path if known and path.is_absolute() else None
