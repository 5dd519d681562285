"""Expansion of path patterns in options."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from attention_lab.errors import LabError
from attention_lab.runs.path_patterns import expand_paths
from attention_lab.runs.run_folder import find_runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "[a]"):
        (tmp_path / name).mkdir()
    (tmp_path / "c").touch()
    return tmp_path


def test_paths_and_patterns_each_once(folder: Path) -> None:
    given = [folder / "b", f"{folder}/*", str(folder / "nowhere")]
    names = [path.name for path in expand_paths(given, "run", "folder", Path.is_dir)]
    assert names == ["b", "[a]", "a", "nowhere"]
    assert expand_paths([f"{folder}/c*"], "ckpt_path", "file", Path.exists) == [folder / "c"]


def test_a_path_may_look_like_a_pattern(folder: Path) -> None:
    assert expand_paths([folder / "[a]"], "run", "folder", Path.is_dir) == [folder / "[a]"]


def test_a_pattern_that_nothing_matches(folder: Path) -> None:
    with pytest.raises(LabError, match=r"^run=.*/c\*: no folder matches$"):
        expand_paths([f"{folder}/c*"], "run", "folder", Path.is_dir)


def test_patterns_for_all_levels(folder: Path) -> None:
    for name in ("a/x/best", "b/x/y/best", ".hidden/best", "b/best"):
        (folder / name).mkdir(parents=True)
    for pattern in (f"{folder}/**/best", f"{folder}/**/*/best", f"{folder}/[ab]/**/best"):
        found = expand_paths([pattern], "run", "folder", Path.is_dir)
        assert [str(path.relative_to(folder)) for path in found] == ["a/x/best", "b/best", "b/x/y/best"]
    assert len(expand_paths([f"{folder}/b/**"], "run", "folder", Path.is_dir)) == 4


def test_links_to_their_own_folder_are_not_followed(folder: Path) -> None:
    for name in ("one", "two"):  # 2^40 paths
        (folder / name).symlink_to(".")
    with pytest.raises(LabError, match="no folder matches"):
        expand_paths([f"{folder}/**/best"], "run", "folder", Path.is_dir)


def test_deeply_nested_folders(folder: Path) -> None:
    """Looking below each of 2,000 nested folders, which a pattern matches, took hours."""
    deepest = folder.joinpath(*["d"] * 100)
    for one in (deepest, deepest / "d"):
        one.mkdir(parents=True)
        (one / "metrics.json").touch()
    found = expand_paths([f"{folder}/**/metrics.json"], "run", "file", Path.is_file)
    assert found == [deepest / "metrics.json"]
    assert [job.folder for job in find_runs([folder])] == [deepest]


def test_a_link_to_itself_is_left_alone(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    assert find_runs([folder]) == []
    assert expand_paths([f"{folder}/**/c"], "run", "file", Path.is_file) == [folder / "c"]


@pytest.mark.parametrize("error", [errno.EACCES, errno.ENOENT])
def test_a_folder_that_cannot_be_read_is_named(
    error: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b" / "metrics.json").touch()
    scan = os.scandir

    def denied(path: Path) -> Any:
        if path == folder / "a":
            raise OSError(error, os.strerror(error), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert [job.folder.name for job in find_runs([folder])] == ["b"]
    said = f"Warning: {folder}/a: Permission denied: its runs are left out\n"
    assert capsys.readouterr().err == (said if error == errno.EACCES else "")
