"""Databases from others are looked at before a library opens them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from attention_lab.callbacks.trackers import mlflow
from attention_lab.databases import check_no_queries, read_texts
from attention_lab.errors import LabError

RUN = "0" * 32


def _database(path: Path, place: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO runs VALUES (?, ?)", (RUN, place))
        database.commit()


@pytest.mark.parametrize("place", ["/tmp/elsewhere", "file:///etc", "s3://bucket/x", "../other", "a/../../b"])
def test_mlflow_keeps_no_pictures_outside_the_folder(place: str, tmp_path: Path) -> None:
    _database(tmp_path / mlflow.DATABASE, place)
    with pytest.raises(LabError, match=r"mlflow.db keeps files in .*, outside the run's folder"):
        mlflow._check_places(tmp_path, mlflow._OF_RUN, RUN)


@pytest.mark.parametrize("place", ["{}/mlflow_artifacts/x", "file://{}/x", "x/y"])
def test_those_in_the_folder_are_kept(place: str, tmp_path: Path) -> None:
    _database(tmp_path / mlflow.DATABASE, place.format(tmp_path))
    mlflow._check_places(tmp_path, mlflow._OF_RUN, RUN)


def test_missing_and_damaged_databases(tmp_path: Path) -> None:
    check_no_queries(tmp_path / "none.db", "x")
    assert read_texts(tmp_path / "none.db", "SELECT 1", []) == []
    _database(tmp_path / "a.db", "x")
    assert read_texts(tmp_path / "a.db", "SELECT x FROM none", []) == []
    (tmp_path / "b.db").write_bytes(b"no database" * 100)
    with pytest.raises(LabError, match=r"^b: file is not a database"):
        check_no_queries(tmp_path / "b.db", "b")
