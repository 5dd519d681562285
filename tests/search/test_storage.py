"""The address of a study's database."""

import sys
from configparser import MissingSectionHeaderError
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("optuna")

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import Trial
from studies import join_study

from attention_lab.errors import LabError
from attention_lab.search.storage import blame_database, connect, storage_url
from attention_lab.search.study import Result


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@host/name",
        "postgresql+psycopg2://me:secret@host:5432/name",
        "postgresql://host/name?user=me&password=secret",
        "mysql://host/name?passwd=secret",
        "postgresql://me:secret@host/name?sslpassword=secret",
    ],
)
def test_a_password_is_rejected_and_not_repeated(address: str) -> None:
    """The trials get the address as an option, which the files of a run record."""
    with pytest.raises(LabError, match="leave the password out") as error:
        storage_url(address, Path("a"))
    assert str(error.value).startswith(f"sweep.storage={address.partition('://')[0]}://")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "address", ["postgresql://me:secret@host:port/name", "://me:secret@host", "a b://:secret@"]
)
def test_an_address_that_cannot_be_read_is_not_repeated(address: str) -> None:
    """A port that is not a number ended in a traceback."""
    with pytest.raises(LabError, match=r"^sweep\.storage=.*://\.\.\. is neither a file nor the URL") as error:
        storage_url(address, Path("a"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "error",
    [
        TypeError("an unknown parameter"),
        AttributeError("an unknown character set"),
        MissingSectionHeaderError("my.cnf", 1, "user=me"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_parameter_that_the_driver_rejects_is_not_blamed_on_the_study(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two said that the study was damaged; the last ended in a traceback."""

    def refuse(**_: object) -> None:
        raise error

    driver = SimpleNamespace(connect=refuse, paramstyle="pyformat", Error=ValueError, VERSION=(1, 1, 0))
    monkeypatch.setitem(sys.modules, "pymysql", driver)
    url = "mysql+pymysql://host/name?read_default_file=my.cnf"
    with pytest.raises(LabError) as found:
        connect(url)
    assert str(found.value) == f"sweep.storage={url}: {str(error).splitlines()[0]}"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna says only that one is missing."""
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(LabError, match=r"^sweep\.storage=mysql://host/name: .*MySQLdb.*: install "):
        connect("mysql://host/name")


def test_a_heartbeat_that_cannot_be_recorded_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a server restarted, the heartbeats ended with a traceback, and the trial was run once more."""

    def refuse(*_: object) -> None:
        raise StorageInternalError("the server is restarting")

    monkeypatch.setattr(RDBStorage, "record_heartbeat", refuse)
    connect(storage_url(None, tmp_path), 20).record_heartbeat(1)


def test_a_server_that_is_gone_at_the_end_of_a_trial_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna then ends with an error of its own, in which it reads a variable that it has not set."""
    study = join_study(tmp_path, wanted=1)

    def refuse(*_: object, **__: object) -> None:
        raise StorageInternalError("the server is gone")

    def job(trial: Trial) -> Result:
        for name in ("set_trial_state_values", "get_trial"):
            monkeypatch.setattr(RDBStorage, name, refuse)
        return Result("complete", 0.5)

    gone = r"^sweep\.storage=sqlite:///x: the server is gone$"
    with pytest.raises(LabError, match=gone), blame_database("sqlite:///x"):
        study.run_one(job)
