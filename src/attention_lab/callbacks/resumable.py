"""Resume interrupted training where it stopped, including the state that Lightning does not save."""

import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor
from torchmetrics import Metric

from attention_lab.callbacks.randomness import random_states, restore_random_states
from attention_lab.callbacks.run_logs import mark
from attention_lab.data.reading.bucketing import BucketBatches
from attention_lab.distributed import any_process, gather_from_processes
from attention_lab.errors import LabError, Stopped
from attention_lab.files.run_files import LAST
from attention_lab.untrusted.training_state import check_random_states, interrupted_epoch_state, metric_states

STATE = "attention_lab_state"
"""The key under which a checkpoint holds the state for resuming in the middle of training."""


class Resumable(pl.Callback):
    """Saves `last.ckpt` between two batches; from there, a resumed run gives the results of an unbroken one.

    Lightning restores weights, optimiser, schedule, callbacks and the counts of its loops. This callback
    adds the position in the epoch's batches, the metrics so far and the lengths of the log files. For each
    process it also adds the random states and the running sums of the epoch's metrics.

    It saves at the start of a batch, when the previous one is done and logged, so it must precede all
    callbacks that log at that point. With gradient accumulation, it waits for the optimiser step.

    Args:
        dirpath: the folder of the checkpoints.
        every_seconds: seconds between saves; None to save only when training ends or is stopped by a signal.

    Attributes:
        resuming: whether the loaded checkpoint is the run's own.
    """

    def __init__(self, dirpath: str, every_seconds: float | None = 60) -> None:
        if every_seconds is not None and every_seconds < 0:
            raise LabError(
                f"callbacks.resumable.every_seconds={every_seconds}: choose 0 (after every batch) or more"
            )
        self.path = Path(dirpath) / LAST
        self.every_seconds = every_seconds
        self.resuming = False
        self._to_restore: dict[str, Any] | None = None
        self._to_save: dict[str, Any] | None = None
        self._sums: dict[str, dict[str, Tensor]] = {}
        self._last = 0.0

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take the state that `on_save_checkpoint` added, to restore it before the first batch."""
        if trainer.state.fn == TrainerFn.FITTING and STATE in checkpoint:
            state = checkpoint[STATE]
            self._to_restore = interrupted_epoch_state(state) if self.resuming else state
            # Lightning recognises that training ended after the last epoch, but not after an earlier one.
            trainer.should_stop = self.resuming and checkpoint[STATE]["done"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock, and skip the epoch's batches that are already done.

        Raises:
            ValueError: the run's own checkpoint counts more batches than an epoch has.
        """
        self._last = time.monotonic()
        if self._to_restore is not None:
            sampler = getattr(trainer.train_dataloader, "sampler", None)
            if isinstance(sampler, BucketBatches):
                done = self._to_restore["batch"]
                if self.resuming and done > len(sampler):
                    raise ValueError(f"it continues after {done} batches, but an epoch has {len(sampler)}")
                sampler.skip(done)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Restore before the first batch; save when due."""
        if self._to_restore is not None:
            self._restore(trainer, pl_module, self._to_restore)
        if self.every_seconds is None or batch_idx % trainer.accumulate_grad_batches:
            return
        due = trainer.global_step > 0 and time.monotonic() - self._last >= self.every_seconds
        if any_process(due, trainer.strategy.root_device):
            self._save(trainer, pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Add the saved running sums of the metrics to those of the first batch."""
        if self._sums:
            results: dict[str, Any] = trainer._results or {}
            for key in self._sums.keys() & results.keys():
                now = results[key].metric_state
                try:
                    before = metric_states(self._sums.pop(key), now, key)
                except ValueError as error:
                    raise LabError(f"{self.path}: training cannot continue from it: {error}") from None
                _add(results[key], before)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Save if a signal stopped training between two batches."""
        if isinstance(exception, Stopped) and exception.between_batches and self._to_restore is None:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save the result, in case the run is interrupted before it is tested."""
        self._save(trainer, pl_module, done=True)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the metrics if training was already complete."""
        if self._to_restore is not None and self.resuming:
            trainer.callback_metrics.update(self._to_restore["metrics"])

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the state to `last.ckpt`, and count the batch that is about to start as not started."""
        if self._to_save is None:
            return
        checkpoint[STATE] = self._to_save
        if not self._to_save["done"]:
            progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
            for count in (progress["total"], progress["current"]):
                count["ready"] = count["completed"]
            progress["is_last_batch"] = False

    def _save(self, trainer: pl.Trainer, module: pl.LightningModule, done: bool = False) -> None:
        logged = trainer.fit_loop.epoch_loop._batches_that_stepped
        own = {"random": random_states(), "sums": _epoch_sums(trainer), "metrics": _metric_states(module)}
        self._to_save = {
            "done": done,
            "batch": 0 if done else trainer.fit_loop.epoch_loop.batch_progress.current.completed,
            "logged": logged,
            "metrics": {name: value.cpu() for name, value in trainer.callback_metrics.items()},
            "shown": {name: float(value) for name, value in trainer.progress_bar_metrics.items()},
            "logs": mark(trainer.loggers) if trainer.is_global_zero else {},
            "processes": gather_from_processes(own),
        }
        try:
            trainer.save_checkpoint(self.path)
        finally:
            self._to_save = None
        self._last = time.monotonic()

    def _restore(self, trainer: pl.Trainer, module: pl.LightningModule, state: dict[str, Any]) -> None:
        self._to_restore = None
        if not self.resuming:
            return
        # Lightning would guess whether the previous batch was logged, assuming another point of saving.
        trainer.fit_loop.epoch_loop._batches_that_stepped = state["logged"]
        trainer.callback_metrics.update(state["metrics"])
        trainer.progress_bar_metrics.update(state["shown"])
        own = state["processes"][trainer.global_rank]
        modules = dict(module.named_modules())
        for name, values in own["metrics"].items():
            metric = modules[name]
            if not isinstance(metric, Metric):
                raise ValueError(f"{name} is not a metric")
            sums = metric_states(values, metric._defaults, name)
            for attribute, value in move_data_to_device(sums, module.device).items():
                setattr(metric, attribute, value)
        self._sums = dict(own["sums"])
        check_random_states(own["random"])
        restore_random_states(own["random"])


def _epoch_sums(trainer: pl.Trainer) -> dict[str, dict[str, Tensor]]:
    """The running sums of the values that training logs once per epoch."""
    return {
        key: {name: value.cpu() for name, value in one.metric_state.items()}
        for key, one in (trainer._results or {}).items()
        if one.is_tensor and one.meta.on_epoch and not one.has_reset
    }


def _add(metric: Any, before: dict[str, Tensor]) -> None:
    takes_one = metric.meta.is_max_reduction or metric.meta.is_min_reduction
    for name, value in before.items():
        now = getattr(metric, name)
        reduce = metric.meta.reduce_fx if takes_one and name == "value" else torch.add
        setattr(metric, name, reduce(value.to(now.device), now))


def _metric_states(module: pl.LightningModule) -> dict[str, dict[str, Any]]:
    """The states of the metrics that have been updated, on the CPU, with their numbers of updates."""
    return {
        name: {
            **move_data_to_device(one.metric_state, torch.device("cpu")),
            "_update_count": one._update_count,
        }
        for name, one in module.named_modules()
        if isinstance(one, Metric) and one._update_count
    }
