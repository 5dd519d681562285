"""The curve of the loss, from the log of a run."""

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from torch.utils.tensorboard import SummaryWriter

from attention_lab.errors import LabError
from attention_lab.tasks import loss_curve
from attention_lab.tasks.loss_curve import TAG, save_losses


def _log(folder: Path, losses: dict[int, float]) -> Path:
    with SummaryWriter(str(folder / "log")) as writer:
        for step, loss in losses.items():
            writer.add_scalar(TAG, loss, step)
    return folder / "log"


def test_each_logged_loss_stands_at_its_step_counted_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(loss_curve, "plot_file", lambda panels, *_, **__: bytes(drawn.extend(panels) or b"x"))
    path = save_losses(_log(tmp_path, {0: 2.0, 49: 0.5}), tmp_path, "cross entropy", "svg")
    assert path == tmp_path / "loss.svg" and path.read_bytes() == b"x"
    ((series,),) = (panel.series for panel in drawn)
    assert (list(series.x), list(series.y)) == ([1, 50], [2.0, 0.5])
    assert (drawn[0].x_label, drawn[0].y_label) == ("step", "cross entropy")


def test_fewer_than_two_losses_make_no_curve(tmp_path: Path) -> None:
    assert save_losses(tmp_path / "none", tmp_path, "loss") is None
    assert save_losses(_log(tmp_path, {}), tmp_path, "loss") is None
    assert save_losses(_log(tmp_path, {0: 1.0}), tmp_path, "loss") is None
    assert not list(tmp_path.glob("loss.*"))


def _framed(event: bytes, length: int) -> bytes:
    claimed = pack("<Q", length)
    return claimed + pack("<I", masked_crc32c(claimed)) + event + pack("<I", masked_crc32c(event))


def test_events_of_others_are_checked_before_they_are_read(tmp_path: Path) -> None:
    (log,) = _log(tmp_path, {0: 2.0, 49: 0.5}).iterdir()
    with log.open("ab") as file:
        file.write(_framed(b"\xff\xff\x01", 3))
    assert save_losses(log.parent, tmp_path, "loss", "svg") == tmp_path / "loss.svg"
    with log.open("ab") as file:
        file.write(_framed(b"", 2**34))
    with pytest.raises(
        LabError, match=rf"{log.name} cannot be read: it claims to have an event of 17179869184"
    ):
        save_losses(log.parent, tmp_path, "loss")
