"""The table of epochs on the console, at any width, and the line that says why a training ended early."""

import gc
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attention_lab.callbacks import Progress, progress
from attention_lab.callbacks.progress import JobProgress
from attention_lab.errors import Stopped

LOSSES = [1234.5, 0.5, 0.25, 0.25, 0.25, 0.25]


class Module(pl.LightningModule):
    """Logs what a task does; its losses are given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def training_step(self, batch: Tensor) -> Tensor:
        self.log("train/loss", LOSSES[self.current_epoch], prog_bar=True, batch_size=1)
        self.log("train/other", 7.0, prog_bar=True, batch_size=1)
        return self.weight * 0

    def validation_step(self, batch: Tensor) -> None:
        for name in ("validation/loss", "validation/token_error", "validation/a_metric_with_a_long_name"):
            self.log(name, 0.125, prog_bar=name != "validation/token_error", batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters())


def _fit(folder: object, *callbacks: pl.Callback, refresh_rate: int = 10, **options: Any) -> None:
    batches = DataLoader([torch.zeros(1)])
    monitor = ModelCheckpoint(str(folder), monitor="validation/token_error")
    _trainer(6, Progress(refresh_rate), monitor, *callbacks, **options).fit(Module(), batches, batches)


def _trainer(epochs: int, *callbacks: pl.Callback, **options: Any) -> pl.Trainer:
    return pl.Trainer(
        max_epochs=epochs,
        logger=False,
        accelerator="cpu",
        num_sanity_val_steps=0,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )


def _lines(
    capsys: pytest.CaptureFixture[str], folder: object, *callbacks: pl.Callback, **options: Any
) -> list[str]:
    _fit(folder, *callbacks, **options)
    return capsys.readouterr().out.splitlines()


def test_one_row_for_each_epoch_counted_from_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    header, *rows = _lines(capsys, tmp_path)
    assert re.split("  +", header.strip()) == [
        "epoch",
        "elapsed",
        "train loss",
        "validation token error",  # the monitored metric comes first, also if it is not on the bar
        "validation loss",
        "validation a metric with a long name",
    ]
    assert [row.split()[0] for row in rows] == [f"{epoch}/6" for epoch in range(1, 7)]
    assert [row.split()[2] for row in rows] == ["1,234", "0.5000", "0.2500", "0.2500", "0.2500", "0.2500"]
    assert {len(row) for row in [header, *rows]} == {len(header)}


class _Steps(Module):
    """Trains for two epochs of three steps, each with its own loss."""

    losses: ClassVar = [6.0, 2.0, 1.0, 0.5, 0.25, 0.0]

    def training_step(self, batch: Tensor) -> Tensor:
        self.training_loss = torch.tensor(self.losses[self.global_step])
        self.log("train/loss", self.training_loss, prog_bar=True, batch_size=1)
        return self.weight * 0


def _steps(folder: Path, ckpt_path: Path | None = None) -> None:
    """Train and save every step, or continue from a checkpoint in the middle of an epoch."""
    every_step = ModelCheckpoint(folder, "{step}", save_top_k=-1, every_n_train_steps=1)
    three, one = DataLoader([torch.zeros(1)] * 3), DataLoader([torch.zeros(1)])
    _trainer(2, Progress(), every_step).fit(_Steps(), three, one, ckpt_path=ckpt_path)


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
def test_the_training_loss_is_the_mean_over_the_epoch_also_if_it_was_interrupted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _steps(tmp_path)
    unbroken = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in unbroken[1:]] == ["3", "0.2500"]
    for step in (2, 4):
        _steps(tmp_path, tmp_path / f"step={step}.ckpt")
        resumed = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [row[2] for row in resumed if "/2" in row[0]] == ["3", "0.2500"][step // 3 :]


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended")
def test_the_time_includes_the_parts_before_interruptions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _steps(tmp_path)
    path = tmp_path / "step=3.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    assert 0 < checkpoint["callbacks"]["Progress"]["seconds"] < 60
    checkpoint["callbacks"]["Progress"]["seconds"] = 3700.0
    torch.save(checkpoint, path)
    capsys.readouterr()
    _steps(tmp_path, path)
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if "2/2" in line.split()]
    assert row[1].startswith("1:01:4")


def test_a_step_does_not_wait_for_the_value_of_its_loss() -> None:
    progress, module = Progress(), Module()
    module.training_loss = torch.ones((), device="meta")  # whose value cannot be read
    trainer = pl.Trainer(logger=False, accelerator="cpu", callbacks=[progress], enable_checkpointing=False)
    progress.on_sanity_check_start(trainer, module)
    progress.train_progress_bar = progress.init_train_tqdm()
    for index in range(30):
        progress.on_train_batch_end(trainer, module, None, None, index)
    with pytest.raises(RuntimeError, match="meta"):
        progress.state_dict()
    module.training_loss = torch.tensor(torch.inf)
    progress.setup(trainer, module, "fit")
    progress.on_train_batch_end(trainer, module, None, None, 0)
    expected = {"seconds": 0.0, "epoch": 0, "total": 0.0, "steps": 0}  # what a resumed run accepts
    assert progress.state_dict() == expected


@pytest.mark.parametrize("width", [50, 60, 80])
def test_a_narrow_console_leaves_out_the_last_columns(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = _lines(capsys, tmp_path)
    assert all(len(line) <= width for line in lines)
    assert re.split("  +", lines[0].strip())[:4] == [
        "epoch",
        "elapsed",
        "train loss",
        "validation token error",
    ]


@pytest.mark.parametrize(
    ("stopping", "options", "line"),
    [
        ({"patience": 2}, {}, "Stopped after epoch 5: train loss has not improved in 2 epochs"),
        ({"patience": 1}, {}, "Stopped after epoch 4: train loss has not improved in 1 epoch"),
        (
            {"patience": 1, "monitor": "validation/loss"},
            {"check_val_every_n_epoch": 2},
            "Stopped after epoch 4: validation loss has not improved in 1 validation",
        ),
        (
            {"mode": "max", "stopping_threshold": 1000.0},
            {"min_epochs": 3},
            "Stopped after epoch 3: in epoch 1, train loss has reached 1000.0",
        ),
        ({"stopping_threshold": 2000.0}, {}, "Stopped after epoch 1: train loss has reached 2000.0"),
        ({"divergence_threshold": 9.0}, {}, "Stopped after epoch 1: train loss is worse than 9.0"),
    ],
)
def test_a_training_that_ends_early_says_why(
    stopping: dict[str, Any],
    options: dict[str, Any],
    line: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    stop = EarlyStopping(**{"monitor": "train/loss", **stopping})
    assert _lines(capsys, tmp_path, stop, **options)[-1] == line


def test_a_training_that_ends_in_the_middle_of_an_epoch_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    stop = EarlyStopping("validation/loss", patience=1)
    trainer = _trainer(6, Progress(), stop, val_check_interval=2, enable_checkpointing=False)
    trainer.fit(Module(), DataLoader([torch.zeros(1)] * 6), DataLoader([torch.zeros(1)]))
    line = "Stopped in epoch 1: validation loss has not improved in 1 validation"
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_a_training_whose_time_is_over_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = _lines(capsys, tmp_path, max_time={"microseconds": 1})
    assert lines[-1].startswith("Stopped ") and lines[-1].endswith(": the time limit has passed")


def test_a_training_that_reaches_its_last_epoch_has_nothing_to_say(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    lines = _lines(capsys, tmp_path, EarlyStopping("train/loss", patience=3, check_on_train_epoch_end=True))
    assert not [line for line in lines if "Stopped" in line]


def _drawn(text: str) -> list[str]:
    """The states of the bar, and the lines above it, in the order of writing."""
    return [part.strip() for part in re.split(r"[\r\n]|\x1b\[A", text) if part.strip()]


def test_the_bar_names_each_epoch_once_counted_from_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _fit(tmp_path, refresh_rate=1)
    bars = [part for part in _drawn(capsys.readouterr().out) if "%" in part]
    assert bars and all(re.match(r"epoch [1-6]/6: +\d+% .* [01]/1 ", bar) for bar in bars)
    assert bars[0].startswith("epoch 1/6:")


class _Interrupt(pl.Callback):
    def on_train_batch_start(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.current_epoch == 2:
            raise Stopped(2)


@pytest.mark.long
def test_an_interrupted_training_removes_its_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(Stopped):
        _fit(tmp_path, _Interrupt(), refresh_rate=1)
    gc.collect()  # a bar that is still open would be drawn again here
    screen = capsys.readouterr().out
    assert screen.endswith("\r") and not screen.rpartition("\r")[0].rpartition("\r")[2].strip()


def test_a_job_of_a_sweep_shows_its_epochs_and_its_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[tuple[str, ...]] = []
    monkeypatch.setattr(progress.JOB_LINE, "show", lambda *parts: shown.append(parts))
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    steps, one = DataLoader([torch.zeros(1)] * 2), DataLoader([torch.zeros(1)])
    monitor = ModelCheckpoint(tmp_path, monitor="validation/token_error")
    _trainer(2, JobProgress(), monitor, enable_progress_bar=False).fit(Module(), steps, one)
    metric = "validation token error 0.1250"
    assert shown == [
        ("epoch 1/2", " 50%"),
        ("epoch 1/2", "100%"),
        ("epoch 2/2", " 50%", metric),
        ("epoch 2/2", "100%", metric),
    ]
