"""Writing a file follows no link in its folder, and leaves no partial file behind."""

import errno
import os
from pathlib import Path

import pytest

from attention_lab.errors import LabError
from attention_lab.files import writing


def test_a_link_in_place_of_the_partial_file_is_not_followed(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.write_text("precious")
    (run / f".report.html.{os.getpid()}.part").symlink_to(outside)
    (run / "report.html").symlink_to(outside)
    writing.write_atomically(run / "report.html", "new")
    assert outside.read_text() == "precious"
    assert not (run / "report.html").is_symlink() and (run / "report.html").read_text() == "new"


def test_the_partial_file_must_be_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing.secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".x.guessed.part").symlink_to(tmp_path / "outside")
    with pytest.raises(LabError, match=r"cannot write .*x: File exists"):
        writing.write_atomically(tmp_path / "x", "new")
    assert not (tmp_path / "outside").exists() and not (tmp_path / "x").exists()


def test_only_a_full_disk_is_to_be_freed(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(LabError, match=r"cannot write .*x: (File exists|Not a directory); once"):
        writing.write_atomically(tmp_path / "a file" / "x", "new")
    over = writing.cannot_write("x", OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))
    assert str(over).startswith(
        f"cannot write x: {os.strerror(errno.EDQUOT)}; free some space and repeat the command"
    )
    assert "resume=<the run's folder> if it trained" in str(over)  # a report, for example, is made again


def test_permissions_and_partial_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        writing.write_atomically(tmp_path / "x", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing.os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        writing.write_atomically(tmp_path / "x", "newer")
    assert len(list(tmp_path.iterdir())) == 2
    writing.remove_partial_files(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "new")]


def test_files_that_belong_together_are_all_written_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {tmp_path / name: f"old {name}" for name in "abc"}
    writing.write_together(old)
    assert {path: path.read_text() for path in tmp_path.iterdir()} == old
    sync, synced = os.fsync, []

    def full(number: int) -> None:
        synced.append(number)
        if len(synced) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(number)

    with monkeypatch.context() as patched:
        patched.setattr(writing.os, "fsync", full)
        with pytest.raises(LabError, match=r"cannot write .*c: No space left"):
            writing.write_together(dict.fromkeys(old, b"new"))
    assert {path: path.read_text() for path in tmp_path.iterdir()} == old
    (tmp_path / "d").mkdir()
    with pytest.raises(LabError, match=r"cannot write .*d: Is a directory; remove it, or choose"):
        writing.write_together(dict.fromkeys([*old, tmp_path / "d"], "new"))
    (tmp_path / "d").rmdir()
    assert {path: path.read_text() for path in tmp_path.iterdir()} == old
