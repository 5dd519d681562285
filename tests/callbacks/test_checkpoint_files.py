"""Checkpoints are written only to the run's folder and to the folders that its options name."""

from pathlib import Path

import pytest

from attention_lab.callbacks.checkpoint_files import CheckpointFiles
from attention_lab.errors import LabError


def test_no_checkpoint_elsewhere(tmp_path: Path) -> None:
    run, named, elsewhere = tmp_path / "run", tmp_path / "named", tmp_path / "elsewhere"
    for folder in (run, named, elsewhere):
        folder.mkdir()
    (run / "link").symlink_to(elsewhere)
    (elsewhere / "best.ckpt").write_text("precious")
    files = CheckpointFiles(str(run), str(named))
    for target in (
        elsewhere / "best.ckpt",
        run / ".." / "elsewhere" / "best.ckpt",
        run / "link" / "best.ckpt",
    ):
        with pytest.raises(LabError, match=r"best.ckpt would not be in the run's folder .*: choose"):
            files.save_checkpoint({}, target)
    assert (elsewhere / "best.ckpt").read_text() == "precious"
    for target in (run / "checkpoints" / "best.ckpt", named / "best.ckpt"):
        files.save_checkpoint({"step": 1}, target)
        assert files.load_checkpoint(target) == {"step": 1}
