"""Whether a path lies in a folder, and how messages show it."""

from pathlib import Path

import pytest

from attention_lab.files.paths import is_inside, short_path


def test_a_path_is_inside_its_folder_whether_or_not_it_exists(tmp_path: Path) -> None:
    assert is_inside(tmp_path, tmp_path)
    assert is_inside(tmp_path / "new" / "file", tmp_path)
    assert not is_inside(tmp_path / "run2" / "file", tmp_path / "run")
    assert not is_inside(f"{tmp_path}/run/../file", tmp_path / "run")


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "out").symlink_to(tmp_path)
    (tmp_path / "in").symlink_to(run)
    assert not is_inside(run / "out" / "file", run)
    assert is_inside(tmp_path / "in" / "file", run)


def test_a_path_below_the_base_is_shown_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_path(tmp_path / "logs" / "run") == "logs/run"
    assert short_path("logs/run", "logs") == "run"
    assert short_path(tmp_path / "logs", tmp_path / "other") == str(tmp_path / "logs")
    assert short_path("/") == "/"


def test_a_link_below_the_base_is_shown_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "here" / "logs").symlink_to(tmp_path / "scratch")
    monkeypatch.chdir(tmp_path / "here")
    assert short_path(tmp_path / "here" / "logs" / "run") == "logs/run"
