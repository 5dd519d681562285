"""Databases from others are looked at before a library opens them."""

import re
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from attention_lab import databases
from attention_lab.callbacks.trackers import mlflow
from attention_lab.databases import check_study, read_texts
from attention_lab.errors import LabError

RUN = "0" * 32
MAGIC = bytes.fromhex("d9d505f920a163d7")  # of a journal of SQLite


def _database(path: Path, place: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO runs VALUES (?, ?)", (RUN, place))
        database.commit()


def _stop_in_a_write(path: Path) -> None:
    """Leave the database as a process that is killed in the middle of a write leaves it."""
    copy = path.with_name("copy")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("UPDATE runs SET artifact_uri = 'unfinished'")
        shutil.copy(path, copy)
        shutil.copy(f"{path}-journal", f"{copy}-journal")
    copy.replace(path)
    Path(f"{copy}-journal").replace(f"{path}-journal")


@pytest.mark.parametrize(
    "place",
    [
        *("/tmp/elsewhere", "file:///etc", "s3://bucket/x", "../other", "a/../../b"),
        *("file:/etc", "file://localhost/etc", "file://{}/%2e%2e/x", "{}/%2e%2e/x", "mlflow-artifacts:/x"),
        *("FILE:/etc", "FILE:{}/x", "file:{}/../x#", "{}/\0", ""),
    ],
)
def test_mlflow_keeps_no_pictures_outside_the_folder(place: str, tmp_path: Path) -> None:
    _database(tmp_path / mlflow.DATABASE, place.format(tmp_path))
    with pytest.raises(LabError, match=r"mlflow.db keeps files in .*, outside the run's folder"):
        mlflow._check_places(tmp_path, mlflow._OF_RUN, RUN)


@pytest.mark.parametrize("place", ["{}/mlflow_artifacts/x", "file://{}/x"])
def test_those_in_the_folder_are_kept(place: str, tmp_path: Path) -> None:
    _database(tmp_path / mlflow.DATABASE, place.format(tmp_path))
    mlflow._check_places(tmp_path, mlflow._OF_RUN, RUN)


def test_missing_and_damaged_databases(tmp_path: Path) -> None:
    check_study(tmp_path / "none.db", "x")
    assert read_texts(tmp_path / "none.db", "SELECT 1", []) == []
    _database(tmp_path / "a.db", "x")
    assert read_texts(tmp_path / "a.db", "SELECT x FROM none", []) == []
    (tmp_path / "b.db").write_bytes(b"no database" * 100)
    with pytest.raises(LabError, match=r"^b: file is not a database"):
        check_study(tmp_path / "b.db", "b")


def test_a_database_whose_writer_was_killed_is_read_as_it_was_before(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    _database(file, "before")
    _stop_in_a_write(file)
    check_study(file, "x")
    assert read_texts(file, mlflow._OF_RUN, [RUN]) == ["before"]


def test_a_journal_that_names_another_file_is_rejected(tmp_path: Path) -> None:
    """SQLite would delete that file."""
    file, other = tmp_path / "a.db", tmp_path / "precious"
    other.write_text("text")
    _database(file, "/tmp/elsewhere")
    _stop_in_a_write(file)
    name = bytes(other)
    with Path(f"{file}-journal").open("ab") as journal:
        journal.write(struct.pack(">I", 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC)
    for check in (lambda: check_study(file, str(file)), lambda: read_texts(file, mlflow._OF_RUN, [RUN])):
        with pytest.raises(LabError, match=r"a.db: its journal names another file: remove a.db-journal"):
            check()
    assert other.read_text() == "text"


def test_a_study_that_does_not_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna makes an object of thousands of bytes of every trial, which takes 35 bytes in the file."""
    file = tmp_path / "a.db"
    _database(file, str(tmp_path))
    with closing(sqlite3.connect(file)) as database:
        database.execute('CREATE TABLE "a ""table""" (a TEXT)')
        database.executemany('INSERT INTO "a ""table""" VALUES (?)', [("x",)] * 9)
        database.commit()
    monkeypatch.setattr(databases, "physical_memory", lambda: 50_000)
    check_study(file, "x")
    monkeypatch.setattr(databases, "physical_memory", lambda: 49_999)
    with pytest.raises(LabError, match=r"^x: it has more than 9 rows: use another file$"):
        check_study(file, "x")


def test_rows_that_share_their_pages_are_rejected(tmp_path: Path) -> None:
    """A damaged file may hold the same text in any number of rows, which takes no more space in it."""
    file = tmp_path / "a.db"
    _database(file, str(tmp_path))
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE trials (text TEXT)")
        database.executemany("INSERT INTO trials VALUES (?)", [("a" * 9_000,), ("b" * 9_000,)])
        database.commit()
    check_study(file, "x")
    content = file.read_bytes()
    first, second = (re.search(letter + b"{50,}(....)", content) for letter in (b"a", b"b"))
    assert first is not None and second is not None  # each text goes on in the page with this number
    file.write_bytes(content[: second.start(1)] + first[1] + content[second.end(1) :])
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT sum(length(text)) FROM trials").fetchone() == (18_000,)
    for check in (lambda: check_study(file, str(file)), lambda: read_texts(file, mlflow._OF_RUN, [RUN])):
        with pytest.raises(LabError, match=r"a\.db: the database is damaged: .*2nd reference to page"):
            check()


HOSTILE = {
    "view": "CREATE VIEW v AS SELECT 1",
    "trigger": "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN SELECT 1; END",
    "trigger with more": "CREATE TRIGGER t BEFORE UPDATE ON runs FOR EACH ROW WHEN OLD.a != NEW.a "
    "BEGIN SELECT RAISE(ABORT, ''); DELETE FROM runs; END",
    "default": "CREATE TABLE t (a TEXT DEFAULT (hex(zeroblob(400000000))))",
    "check": "CREATE TABLE t (a TEXT CHECK (a != 1 AND [length] (a) > 0))",
    "quoted": 'CREATE TABLE t (a TEXT CHECK ("length"\n(a) > 0))',
    "comment": "CREATE TABLE t (a TEXT CHECK (length/**/(a) > 0))",
    "pattern": "CREATE TABLE t (a TEXT CHECK (a LIKE '%a%a%a%a%a%b'))",
    "doubled": "CREATE TABLE t (a TEXT, b TEXT AS (a||a), c TEXT AS (b||b))",
    "index": "CREATE INDEX i ON runs (hex(artifact_uri))",
    "virtual": "CREATE VIRTUAL TABLE t USING fts5(a)",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_databases_that_run_code_of_their_own_are_rejected(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    _database(file, str(tmp_path))
    with closing(sqlite3.connect(file)) as database:
        database.execute(HOSTILE[kind])
    said = r"a.db: its (table|view|trigger|index) [vti] runs code, which neither Optuna nor MLflow needs"
    for check in (lambda: check_study(file, str(file)), lambda: read_texts(file, mlflow._OF_RUN, [RUN])):
        with pytest.raises(LabError, match=said):
            check()


@pytest.mark.parametrize(
    "own",
    [
        "CREATE TRIGGER prevent_secrets_aad_mutation\nBEFORE UPDATE ON runs\nFOR EACH ROW\n"
        "WHEN OLD.a != NEW.a OR OLD.b != NEW.b\nBEGIN\n    SELECT RAISE(ABORT, 'a (!) is immutable');\nEND",
        "CREATE TABLE spans (a BIGINT, b BIGINT, c BIGINT GENERATED ALWAYS AS (b - a) STORED)",
        "CREATE TABLE t (a VARCHAR(32) DEFAULT 'x' NOT NULL, CONSTRAINT c CHECK (a IN ('x', 'like y')))",
        "CREATE TABLE t (key TEXT, PRIMARY KEY (key), FOREIGN KEY(key) REFERENCES runs (run_uuid))",
        "CREATE INDEX i ON runs (run_uuid)",
    ],
)
def test_what_the_libraries_create_is_accepted(own: str, tmp_path: Path) -> None:
    _database(tmp_path / "a.db", str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(own)
    check_study(tmp_path / "a.db", "x")


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_a_link_in_place_of_a_journal(suffix: str, tmp_path: Path) -> None:
    """SQLite cannot open one, and fails at the first change."""
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("CREATE TABLE trials (number)")
    (tmp_path / f"study.db{suffix}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match=rf"^mine: study\.db{suffix} is a link: remove it$"):
        check_study(tmp_path / "study.db", "mine")
