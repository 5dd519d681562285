"""Expansion of path patterns in options."""

from pathlib import Path

import pytest

from attention_lab.errors import LabError
from attention_lab.runs.path_patterns import expand_paths


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
