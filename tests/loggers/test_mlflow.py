"""Runs on MLflow: what is logged, where, and which databases are rejected."""

import json
import logging
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from logged_run import SMALL
from PIL import Image

from attention_lab.errors import LabError
from attention_lab.loggers.base import read_run_id, save_run_id
from attention_lab.loggers.mlflow import MLFlowRunLogger


@pytest.mark.slow  # importing MLflow alone takes ten seconds
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_mlflow_gets_settings_heatmaps_and_results_and_goes_on_when_resumed(command) -> None:
    pytest.importorskip("mlflow", minversion="3")
    done = command(*SMALL, "logger=mlflow")
    assert done.status == 0, done.err
    with closing(sqlite3.connect(done.folder / "mlflow.db")) as records:
        ((run_id, status),) = records.execute("select run_uuid, status from runs").fetchall()
        tags = dict(records.execute("select key, value from tags").fetchall())
        params = dict(records.execute("select key, value from params").fetchall())
        metrics = {name for (name,) in records.execute("select key from metrics").fetchall()}
    assert status == "FINISHED"
    assert f"MLflow       mlflow ui --backend-store-uri sqlite:///{done.folder.name}/mlflow.db\n" in done.out
    assert (tags["first try"], tags["mlflow.note.content"]) == ("true", "hello")
    assert (params["model.hidden_size"], params["tags"]) == ("4", "first try, lstm")
    assert metrics >= json.loads((done.folder / "metrics.json").read_text()).keys()
    assert len(list(done.folder.glob("mlflow_artifacts/*/artifacts/images/weights~example 1~*.png"))) == 1
    (done.folder / "metrics.json").unlink()
    assert command(f"resume={done.folder}", folder=done.folder).status == 0
    with closing(sqlite3.connect(done.folder / "mlflow.db")) as records:
        assert records.execute("select run_uuid from runs").fetchall() == [(run_id,)]
    logging.getLogger("mlflow").handlers.clear()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy
def test_addresses_that_mlflow_rejects_are_reported_in_one_line(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("mlflow", minversion="3")
    with pytest.raises(LabError, match=r"^logger=mlflow: "):
        MLFlowRunLogger(str(tmp_path), tracking_uri="unknown://x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for name in ("loop", "loop/mlflow.db", "file/mlflow.db"):
        with pytest.raises(LabError, match=rf"^logger=mlflow: sqlite:///{tmp_path}/{name}: "):
            MLFlowRunLogger(str(tmp_path), tracking_uri=f"sqlite:///{tmp_path}/{name}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    save_run_id(tmp_path / "mlflow_run_id.txt", "0" * 32)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        logger = MLFlowRunLogger(str(tmp_path), tracking_uri=f"http://user:secret@{address}")
    with pytest.raises(LabError, match=rf"^logger=mlflow: .* http://{address}/"):  # without the account
        logger.continue_run()
    logger = MLFlowRunLogger(str(tmp_path), experiment_name="x" * 501)
    with pytest.raises(LabError, match=r"^logger=mlflow: .*maximum length of 500 characters$"):
        logger.log_settings({}, [], [])
    logging.getLogger("mlflow").handlers.clear()


@pytest.mark.slow
def test_the_page_on_a_server_is_printed_once(command, tmp_path: Path) -> None:
    pytest.importorskip("mlflow", minversion="3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    words = [sys.executable, "-m", "mlflow", "server", "--port", uri.rpartition(":")[2]]
    words += ["--backend-store-uri", f"sqlite:///{tmp_path}/server.db", "--workers", "1"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            _wait_for(uri)
            done = command(*SMALL, "logger=mlflow", f"logger.mlflow.tracking_uri={uri}")
        finally:
            server.terminate()
    assert (done.status, done.err) == (0, "")
    run_id = read_run_id(done.folder / "mlflow_run_id.txt", "[0-9a-f]{32}")
    assert f"\nMLflow       {uri}/#/experiments/1/runs/{run_id}\n" in done.out
    assert done.out.count("http:") == 1


def _wait_for(uri: str) -> None:
    for _ in range(60):
        with suppress(OSError):
            urlopen(f"{uri}/health").close()
            return
        time.sleep(1)
    raise TimeoutError(uri)


@pytest.mark.long
def test_a_server_that_does_not_run_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow tries for minutes, with a warning each time; through a proxy, only MLflow can tell."""
    pytest.importorskip("mlflow", minversion="3")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    message = f"logger=mlflow: no server answers at http://{address}: Connection refused"
    with pytest.raises(LabError, match=f"^{message}$"):
        MLFlowRunLogger(str(tmp_path), tracking_uri=f"http://user:secret@{address}")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    MLFlowRunLogger(str(tmp_path), tracking_uri=f"http://{address}")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_the_pictures_of_a_given_database_are_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's default is a folder `mlruns` in the working directory, whichever that is at the first run."""
    pytest.importorskip("mlflow", minversion="3")
    for name in ("elsewhere", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    uri = f"sqlite:///{tmp_path}/shared/all.db"
    logger = MLFlowRunLogger(str(tmp_path / "run"), tracking_uri=uri)
    logger.log_picture("weights", Image.new("RGB", (2, 2)), 1)
    assert logger.how_to_view() == ("MLflow", f"mlflow ui --backend-store-uri {uri}")
    assert list(tmp_path.glob("shared/mlflow_artifacts/*/artifacts/images/*.png"))
    assert not list((tmp_path / "elsewhere").iterdir())
    logging.getLogger("mlflow").handlers.clear()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_database_of_another_program_is_an_error_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", minversion="3")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("create table experiments (a)")
    with pytest.raises(LabError, match=rf"^logger=mlflow: {tmp_path}/mlflow.db: .*experiments"):
        MLFlowRunLogger(str(tmp_path)).log_settings({}, [], [])
    logging.getLogger("mlflow").handlers.clear()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_damaged_database_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    """MLflow logs the error with its traceback before it raises it."""
    pytest.importorskip("mlflow", minversion="3")
    MLFlowRunLogger(folder=str(tmp_path)).log_settings({}, [], [])
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("ALTER TABLE experiments RENAME TO other")
        database.execute("CREATE TABLE experiments (name TEXT, artifact_location TEXT)")
        database.commit()
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign]
    logging.getLogger("mlflow").addHandler(handler)
    try:
        with pytest.raises(LabError, match=rf"^logger=mlflow: {tmp_path}/mlflow.db: .*experiments"):
            MLFlowRunLogger(folder=str(tmp_path)).log_settings({}, [], [])
    finally:
        logging.getLogger("mlflow").handlers.clear()
    assert [record for record in said if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("name", ["a?b", "a%2F..%2F..%2Fb", "a#b"])
def test_mlflow_writes_to_no_other_folder_than_the_one_it_is_given(name: str, tmp_path: Path) -> None:
    """In the address of a database, the first name would end at the question mark; the second leads out."""
    with pytest.raises(LabError, match=r"^logger=mlflow: MLflow misreads the .*: rename the folder$"):
        MLFlowRunLogger(str(tmp_path / "runs" / name))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("other", ["many of that name", "a number that is a text"])
def test_mlflow_keeps_no_pictures_where_another_experiment_does(other: str, tmp_path: Path) -> None:
    """In a database from others, a name or a number may stand for several experiments."""
    pytest.importorskip("mlflow", minversion="3")
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    MLFlowRunLogger(str(folder))  # makes the tables
    own = str(folder / "mlflow_artifacts")
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        (columns,) = database.execute("SELECT group_concat(name) FROM pragma_table_info('experiments')")
        database.execute(f"CREATE TABLE others ({columns[0]}, UNIQUE (experiment_id))")  # all types fit
        database.execute("DROP TABLE experiments")
        database.execute("ALTER TABLE others RENAME TO experiments")
        rows = [(number, "attention-lab", own, "gone") for number in range(1, 101)]
        last = (200, "attention-lab", str(outside), "active")
        if other == "a number that is a text":
            rows, last = [("007", "attention-lab", own, "active")], (7, "other", str(outside), "active")
        values = "experiment_id, name, artifact_location, lifecycle_stage, workspace"
        for row in [*rows, last]:
            database.execute(f"INSERT INTO experiments ({values}) VALUES (?, ?, ?, ?, 'default')", row)
        database.commit()
    with pytest.raises(LabError, match=r"mlflow.db keeps files in .*outside/.*, outside the run's folder"):
        MLFlowRunLogger(str(folder)).log_settings({}, [], [])
    logging.getLogger("mlflow").handlers.clear()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["log_metrics", "log_results"])
def test_a_database_that_refuses_metrics_is_named_in_one_line(method: str, tmp_path: Path) -> None:
    """Its triggers may only refuse a change, but with any message."""
    pytest.importorskip("mlflow", minversion="3")
    logger = MLFlowRunLogger(str(tmp_path))
    logger.log_settings({}, [], [])
    trigger = (
        "CREATE TRIGGER t BEFORE INSERT ON metrics FOR EACH ROW WHEN 1 = 1 "
        "BEGIN SELECT RAISE ( ABORT , 'no\x1b[2J' ) ; END"
    )
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as records:
        records.execute(trigger)
    with pytest.raises(LabError, match=r"^logger=mlflow: .*no\x1b\[2J$"):  # shown without the control
        getattr(logger, method)({"loss": 1.0}, 1)
    logging.getLogger("mlflow").handlers.clear()
