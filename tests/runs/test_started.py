"""A command that fails before its work begins leaves no folder behind, and no trace in an older run."""

from pathlib import Path
from typing import Any

import pytest

from attention_lab.errors import LabError
from attention_lab.interruption.folder_lock import lock_folder
from attention_lab.runs.started import discard_new_folder, note_new_folders

NW = ("model=nw", "data.train_size=20", "trainer.max_epochs=1", "pictures=0")


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    "options",
    [
        ["stage=tset"],
        ["stage=predict", "ckpt_path=missing.ckpt", "inputs=[a]"],
        ["stage=test", "ckpt_path=missing.ckpt"],
        ["model=nw", "data=csv_regression", "data.file=missing.csv"],
        ["stage=report", "run=missing"],
    ],
    ids=" ".join,
)
def test_nothing_is_left_of_a_command_that_could_not_start(
    options: list[str], command: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "deep"
    done = command(*options, folder=folder)
    assert done.status == 1, done.out
    assert done.err.startswith("Error: "), done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays(command: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "notes.txt").write_text("mine")
    assert command("stage=tset", folder=kept).status == 1
    assert (kept / "notes.txt").read_text() == "mine"


@pytest.mark.long
def test_a_refused_resume_does_not_mark_the_run_as_failed(command: Any) -> None:
    done = command(*NW)
    assert done.status == 0, done.err
    (done.folder / "metrics.json").unlink()
    refused = command(*NW, "scoring=laplacian", "resume=auto", folder=done.folder)
    assert refused.status == 1
    assert "leave that option as it was" in refused.err
    assert not (done.folder / "error.txt").exists()
    (done.folder / "error.txt").write_text("disk full\n")
    assert command(*NW, "scoring=laplacian", "resume=auto", folder=done.folder).status == 1
    assert (done.folder / "error.txt").read_text() == "disk full\n"


def test_the_version_is_that_of_this_program(command: Any) -> None:
    done = command("--version")
    assert done.status == 0
    assert done.out.startswith("attention-lab 0.1.0 (torch 2.")


@pytest.mark.slow
def test_a_leaderboard_elsewhere_leaves_no_folder_of_its_own(command: Any, tmp_path: Path) -> None:
    done = command("-m", *NW, "seed=1,2", folder=tmp_path / "sweep")
    assert done.status == 0, done.err
    made = command("stage=report", f"run={done.folder}", folder=tmp_path / "report")
    assert made.status == 0, made.err
    assert (done.folder / "report.html").is_file()
    assert not (tmp_path / "report").exists()


def test_a_folder_that_another_run_uses_is_kept(tmp_path: Path) -> None:
    """The same command, started twice at once: the second one removed the log and options of the first."""
    folder = tmp_path / "run"
    note_new_folders(folder)
    (folder / ".hydra").mkdir(parents=True)
    files = [folder / "train.log", folder / ".hydra" / "overrides.yaml"]
    for file in files:
        file.touch()
    with lock_folder(folder), pytest.raises(LabError, match="another run is using"), lock_folder(folder):
        pass
    discard_new_folder(folder)
    assert all(file.exists() for file in files)


def test_files_behind_a_link_are_not_removed(tmp_path: Path) -> None:
    """Someone else may put one in place of Hydra's folder in the meantime."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "config.yaml").write_text("a: 1\n")
    note_new_folders(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".hydra").symlink_to(tmp_path / "precious")
    discard_new_folder(tmp_path / "run")
    assert (tmp_path / "precious" / "config.yaml").exists()
