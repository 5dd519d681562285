"""Progress on the console: a bar while an epoch runs, and one row of a table when it ends."""

import math
import sys
import time
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, Timer, TQDMProgressBar
from pytorch_lightning.callbacks.early_stopping import EarlyStoppingReason
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm, convert_inf
from torch import Tensor

from attention_lab.console_text import console_width, counted
from attention_lab.job_line import JOB_LINE
from attention_lab.text_tables import metric_name, number

LOSS = "train/loss"
LEFT = "{remaining} left{postfix}"
NARROW = 90
"""On terminals with fewer columns the bar leaves out the speed."""
PAUSE = 0.2
"""Minimum number of seconds between updates of a job's line."""
GAP = "  "


class Progress(TQDMProgressBar):
    """A progress bar for the training epoch, on terminals only, and a row of metrics after each validation.

    The row shows the duration of the fit, including the parts before interruptions, the training loss (the
    mean over the epoch's steps so far, of the first process), the monitored metric and as many of the other
    validation metrics as fit the width of the console.

    Args:
        refresh_rate: steps between updates of the bar.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate, leave=False)
        self.start: float | None = None
        self.seconds_before = 0.0
        self.columns: dict[str, int] = {}
        self.known: set[str] = set()
        self._losses = _Losses()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Forget the losses and the time of earlier training, before those of a resumed run are loaded."""
        super().setup(trainer, pl_module, stage)
        self.start, self.seconds_before, self._losses = None, 0.0, _Losses()

    def state_dict(self) -> dict[str, Any]:
        """The time and the epoch's losses so far, as numbers; no losses if their sum is not finite."""
        total = float(self._losses.total)
        losses = replace(self._losses, total=total) if math.isfinite(total) else _Losses()
        return {"seconds": self._seconds(), **vars(losses)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the clock, and the mean of an interrupted epoch."""
        losses = dict(state_dict)
        self.seconds_before = losses.pop("seconds")
        self._losses = _Losses(**losses)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock and a new table."""
        self.start, self.known = time.perf_counter(), set()

    def on_train_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """Create the bar; if training resumes, say where it continues."""
        if trainer.global_step and trainer.is_global_zero:
            _print(f"Resuming at epoch {_epoch(trainer)}, after step {trainer.global_step:,}")
        super().on_train_start(trainer, *args)

    def init_train_tqdm(self) -> Tqdm:
        """Return the training bar, disabled if the output is not a terminal."""
        if not sys.stderr.isatty():
            return Tqdm(disable=True)
        speed = "" if console_width() < NARROW else "  {rate_noinv_fmt}"
        layout = f"{{desc}}{{percentage:4.0f}}% {{bar}} {{n_fmt}}/{{total_fmt}}{speed}  {LEFT}"
        return Tqdm(
            desc=f"epoch {_epoch(self.trainer)}: ",
            total=convert_inf(self.total_train_batches),
            disable=self.is_disabled,
            leave=False,
            dynamic_ncols=True,
            file=sys.stdout,
            smoothing=0,
            bar_format=layout,
        )

    def init_sanity_tqdm(self) -> Tqdm:
        """No bar: evaluation is short."""
        return Tqdm(disable=True)

    init_validation_tqdm = init_test_tqdm = init_sanity_tqdm

    def on_train_epoch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """Show the epoch on the bar, counted from one; Lightning would first show it counted from zero."""
        self.train_progress_bar.set_description(f"epoch {_epoch(trainer)}", refresh=False)
        self.train_progress_bar.reset(convert_inf(self.total_train_batches))

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        """Add the loss of the step to those of the epoch, on its device, without waiting for its value."""
        if self._losses.epoch != trainer.current_epoch:
            self._losses = _Losses(trainer.current_epoch)
        if (loss := getattr(pl_module, "training_loss", None)) is not None:
            precise = torch.float32 if loss.device.type == "mps" else torch.float64
            self._losses.total = self._losses.total + loss.to(precise)
            self._losses.steps += 1
        if not self.train_progress_bar.disable:
            super().on_train_batch_end(trainer, pl_module, *args)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Remove the bars, so that the error message starts on a new line."""
        for bar in (self._val_progress_bar, self._train_progress_bar):
            if bar is not None:
                bar.close()
        sys.stdout.flush()  # the bar's final carriage return is still in the buffer

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The metrics on the bar: the training loss."""
        metrics = super().get_metrics(trainer, pl_module)
        return {LOSS: metrics[LOSS]} if LOSS in metrics else {}

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the epoch, the duration of the fit and the metrics."""
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn != "fit" or trainer.sanity_checking or not trainer.is_global_zero:
            return
        cells = {"epoch": _epoch(trainer), "elapsed": _clock(int(self._seconds()))}
        metrics = _metrics(trainer)
        if LOSS in metrics and self._losses.steps:
            metrics[LOSS] = float(self._losses.total) / self._losses.steps
        cells |= {metric_name(name): number(value) for name, value in metrics.items()}
        if any(name not in self.known for name in cells):
            self.known.update(cells)
            self.columns = _columns(cells, trainer.max_epochs or 0)
            _print(self._row({name: name for name in self.columns}))
        _print(self._row(cells))

    def _seconds(self) -> float:
        return self.seconds_before + (0.0 if self.start is None else time.perf_counter() - self.start)

    def _row(self, cells: dict[str, str]) -> str:
        return GAP.join(cells.get(name, "").rjust(width) for name, width in self.columns.items())

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say why training ended before its last epoch."""
        if not trainer.is_global_zero or trainer.current_epoch == trainer.max_epochs:
            return
        ended, batches = trainer.current_epoch, trainer.fit_loop.epoch_loop.batch_progress
        stop = f"Stopped {'after' if batches.is_last_batch else 'in'} epoch {ended}"
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, EarlyStopping) and (reason := _why_stopped(callback)):
                noticed = callback.stopped_epoch + 1
                earlier = f"in epoch {noticed}, " if noticed < ended else ""  # with trainer.min_epochs
                _print(f"{stop}: {earlier}{reason}")
            left = callback.time_remaining() if isinstance(callback, Timer) else None
            if left is not None and left <= 0:
                _print(f"{stop}: the time limit has passed")


class JobProgress(pl.Callback):
    """Shows the progress of a sweep's job on its line: the epoch, and the last value of its metric."""

    def __init__(self) -> None:
        self._shown = -math.inf
        self._metric: list[str] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Show the epoch and the share of its steps that are done."""
        now = time.perf_counter()
        if now - self._shown < PAUSE:
            return
        self._shown = now
        done = (batch_idx + 1) / trainer.num_training_batches
        JOB_LINE.show(f"epoch {_epoch(trainer)}", f"{done:4.0%}", *self._metric)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remember the monitored metric."""
        monitored = getattr(trainer.checkpoint_callback, "monitor", None)
        if monitored in trainer.callback_metrics:
            value = float(trainer.callback_metrics[monitored])
            self._metric = [f"{metric_name(monitored)} {number(value)}"]

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say that the model is being tested."""
        JOB_LINE.show("testing")


@dataclass
class _Losses:
    """The sum of the training losses of an epoch's steps."""

    epoch: int = 0
    total: Tensor | float = 0.0
    steps: int = 0


def _why_stopped(callback: EarlyStopping) -> str:
    """Why early stopping ended training; empty if it did not."""
    monitored = metric_name(str(callback.monitor))
    unit = "epoch" if callback._check_on_train_epoch_end else "validation"
    reasons = {
        EarlyStoppingReason.NON_FINITE_METRIC: "is not finite",
        EarlyStoppingReason.STOPPING_THRESHOLD: f"has reached {callback.stopping_threshold}",
        EarlyStoppingReason.DIVERGENCE_THRESHOLD: f"is worse than {callback.divergence_threshold}",
        EarlyStoppingReason.PATIENCE_EXHAUSTED: f"has not improved in {counted(callback.patience, unit)}",
    }
    reason = reasons.get(callback.stopping_reason)
    return f"{monitored} {reason}" if reason else ""


def _print(line: str) -> None:
    """Print a line above the bar."""
    Tqdm.write(line, file=sys.stdout)
    sys.stdout.flush()


def _columns(cells: dict[str, str], epochs: int) -> dict[str, int]:
    """The leading columns that fit the console, and their widths."""
    widths = {name: max(len(name), len(cell)) for name, cell in cells.items()}
    widths["epoch"] = max(widths["epoch"], 2 * len(str(epochs)) + 1)
    used = list(accumulate(widths.values(), lambda before, width: before + len(GAP) + width))
    return {
        name: width for (name, width), end in zip(widths.items(), used, strict=True) if end <= console_width()
    }


def _epoch(trainer: pl.Trainer) -> str:
    """The epoch, counted from one, and the number of epochs if it is known."""
    known = trainer.max_epochs not in (None, -1)
    return f"{trainer.current_epoch + 1}/{trainer.max_epochs}" if known else f"{trainer.current_epoch + 1}"


def _clock(seconds: int) -> str:
    """A duration as hours, minutes and seconds."""
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def _metrics(trainer: pl.Trainer) -> dict[str, float]:
    """The training loss, the monitored metric and the other validation metrics, in this order."""
    metrics = {name: float(value) for name, value in trainer.progress_bar_metrics.items()}
    monitored = getattr(trainer.checkpoint_callback, "monitor", None)
    if monitored in trainer.callback_metrics:  # also if it is not on the bar
        metrics[monitored] = float(trainer.callback_metrics[monitored])
    validated = [name for name in metrics if name.startswith("validation/")]
    order = dict.fromkeys([LOSS, monitored, *validated])
    return {name: metrics[name] for name in order if name in metrics}
