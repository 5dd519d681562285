"""Checkpoints are written only to the run's folder and to the folders that its options name."""

import re
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch

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


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda: 0, "Can't pickle"),
        (Lock(), "cannot pickle"),
        (Fraction(1, 2), "fractions.Fraction"),
        ({1.5: 2}, "a key that is neither a string nor a small number"),
    ],
)
def test_a_state_that_could_not_be_loaded_is_named(tmp_path: Path, value: Any, reason: str) -> None:
    files, path = CheckpointFiles(str(tmp_path)), tmp_path / "last.ckpt"
    files.save_checkpoint({"callbacks": {"Fine": {"x": torch.ones(2)}}}, path)
    for checkpoint, name in (
        ({"callbacks": {"Fine": {"x": 1}, "Mine": {"f": value}}}, "Mine.state_dict"),
        ({"callbacks": {}, "hyper_parameters": {"f": value}}, "the checkpoint's hyper_parameters"),
    ):
        told = rf"^{re.escape(name)} may contain only plain values and tensors: .*{re.escape(reason)}"
        with pytest.raises(LabError, match=told):
            files.save_checkpoint(checkpoint, path)
    assert files.load_checkpoint(path)["callbacks"]["Fine"]["x"].tolist() == [1, 1]
