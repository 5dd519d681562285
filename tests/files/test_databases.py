"""Databases from others are looked at before a library opens them."""

import os
import re
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from attention_lab.errors import LabError
from attention_lab.files import databases
from attention_lab.files.databases import check_study, read_texts
from attention_lab.loggers import mlflow

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


def test_a_damaged_definition_whose_name_is_not_utf8(tmp_path: Path) -> None:
    _database(path := tmp_path / "mlflow.db", "")
    content = path.read_bytes().replace(b"tablerunsruns", b"tabler\x9ansruns")
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE XABLE"))
    with pytest.raises(LabError, match=r"^study: the database is damaged: a name in it is not UTF-8"):
        check_study(path, "study")
    with pytest.raises(LabError, match=re.escape(f"{path}: ")):
        read_texts(path, "SELECT artifact_uri FROM runs WHERE run_uuid = ?", [RUN])


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
    monkeypatch.setattr(databases, "usable_memory", lambda: 50_000)
    check_study(file, "x")
    monkeypatch.setattr(databases, "usable_memory", lambda: 49_999)
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
    "chain": "CREATE TABLE t (a INT, b INT AS (a+a), c INT AS (b+b), d INT AS (c+c) NOT NULL)",
    "computed": "CREATE TABLE t (a INT, stored INT AS (a+a+a), CHECK (stored + stored + stored != 1))",
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


SIZE = 4096  # bytes of a page


def _branch(children: list[int], start: int = 0) -> bytes:
    """A page of SQLite, with its header at `start`, that refers to other pages with the rows of a table."""
    cells = [struct.pack(">IB", child, 1) for child in children[:-1]]
    first = SIZE - 5 * len(cells)
    page = struct.pack(">BHHHBI", 5, 0, len(cells), first, 0, children[-1])
    page += b"".join(struct.pack(">H", first + 5 * number) for number in range(len(cells)))
    return page.ljust(first - start, b"\0") + b"".join(cells)


def test_a_list_of_tables_that_never_ends_is_rejected(tmp_path: Path) -> None:
    """Its pages refer to the next one 500 times each, and SQLite reads it before it can check it."""
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"PRAGMA page_size = {SIZE}")
        database.execute("CREATE TABLE t (a TEXT UNIQUE)")
    content = bytearray(file.read_bytes())  # three pages: the list of tables, the table and its index
    table, index = (content[at : at + 2 + content[at]] for at in struct.unpack_from(">2H", content, 108))
    for cell in (table, index):
        content += (struct.pack(">BHHHBH", 13, 0, 1, 10, 0, 10) + cell).ljust(SIZE, b"\0")
    for page in range(5, 15):
        content += _branch([page] * 500)
    content[100:SIZE] = _branch([4, *[15] * 400], 100)
    content[28:32] = struct.pack(">I", len(content) // SIZE)
    file.write_bytes(content)
    for check in (lambda: check_study(file, "x"), lambda: read_texts(file, mlflow._OF_RUN, [RUN])):
        with pytest.raises(LabError, match=r": it has more tables than any study has: use another file$"):
            check()


def test_conditions_are_not_computed_for_every_row(tmp_path: Path) -> None:
    """One of 10,000 characters takes 50 microseconds for each row, which takes ten bytes in the file."""
    file = tmp_path / "a.db"
    _database(file, "x")
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("CREATE TABLE t (a INT CHECK (a > 0))")
        database.execute("INSERT INTO t VALUES (0)")
        database.commit()
    check_study(file, "x")
    assert read_texts(file, mlflow._OF_RUN, [RUN]) == ["x"]


def test_a_huge_definition_is_not_read(tmp_path: Path) -> None:
    """A damaged file of any size may claim a text of a gigabyte."""
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE t (a{' ' * 200_000})")
    with pytest.raises(LabError, match=r"^x: it has a text longer than any study has: use another file$"):
        check_study(file, "x")


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ["symbolic", "hard", "pipe"])
def test_a_link_in_place_of_a_journal(kind: str, suffix: str, tmp_path: Path) -> None:
    """SQLite cannot open a symbolic link, and would write through a hard link."""
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE trials (number)")
    link, other = tmp_path / f"study.db{suffix}", tmp_path / "elsewhere"
    other.write_text("text")
    if kind == "pipe":
        os.mkfifo(link)
    else:
        link.symlink_to(other) if kind == "symbolic" else link.hardlink_to(other)
    with pytest.raises(LabError, match=rf"^mine: study\.db{suffix} is a link, or not a file: remove it$"):
        check_study(tmp_path / "study.db", "mine")
    assert other.read_text() == "text"


@pytest.mark.parametrize("size", [20_000, 1 << 20])
def test_values_of_a_study_that_need_much_memory(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list takes three bytes of JSON, and hundreds of bytes of memory."""
    monkeypatch.setattr(databases, "usable_memory", lambda: 3_000_000)
    for count in (9_000, size):
        with closing(sqlite3.connect(tmp_path / f"{count}.db")) as database:
            database.execute('CREATE TABLE "a""b" (number INTEGER, value_json TEXT)')
            database.execute('INSERT INTO "a""b" VALUES (1, NULL), (2, ?)', [f"[{'[],' * count}[]]"])
            database.commit()
    check_study(tmp_path / "9000.db", "x")
    with pytest.raises(LabError, match=r"^x: it (needs more memory|has a text longer)"):
        check_study(tmp_path / f"{size}.db", "x")
