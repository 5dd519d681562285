"""Resuming an interrupted training where it stopped: what Lightning leaves out of a checkpoint."""

import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor
from torchmetrics import Metric

from attention_lab.callbacks.checkpoint_files import LAST
from attention_lab.callbacks.distributed import any_process
from attention_lab.callbacks.randomness import random_states, restore_random_states
from attention_lab.callbacks.run_logs import mark
from attention_lab.data.reading.loading import BucketBatches
from attention_lab.errors import LabError, Stopped
from attention_lab.untrusted.restored import check_random_states, interrupted_epoch_state, metric_states

STATE = "attention_lab_state"
"""Key of a checkpoint for what is needed to resume in the middle of a training."""


class Resumable(pl.Callback):
    """Saves `last.ckpt` between two batches, and resumes from there as if nothing had happened.

    Lightning restores weights, optimiser, schedule, callbacks and the counts of its loops. To these are
    added, for each process, the random number generators and what metrics have summed up in the epoch so
    far; the place in the order of the epoch's batches, the metrics so far, and how long the log files are.

    It saves at the start of a batch, when all of the batch before it is done and logged; it has to stand
    before all callbacks that log then. Where gradients are accumulated it waits until they are used.

    Args:
        dirpath: the folder of the checkpoints.
        every_seconds: save when this much time has passed since it last did; None: only when training
            ends or is stopped by a signal.

    Attributes:
        resuming: whether the checkpoint that is loaded is the run's own, and not one of another run.
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
        """Take what `on_save_checkpoint` has put there, for the first batch."""
        if trainer.state.fn == TrainerFn.FITTING and STATE in checkpoint:
            state = checkpoint[STATE]
            self._to_restore = interrupted_epoch_state(state) if self.resuming else state
            # Lightning knows when the last epoch is done, but not that another one was.
            trainer.should_stop = self.resuming and checkpoint[STATE]["done"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Pass over the batches of the epoch that are trained; the clock runs."""
        self._last = time.monotonic()
        if self._to_restore is not None:
            sampler = getattr(trainer.train_dataloader, "sampler", None)
            if isinstance(sampler, BucketBatches):
                sampler.skip(self._to_restore["batch"])

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Restore before the first batch; save when it is time."""
        if self._to_restore is not None:
            self._restore(trainer, pl_module, self._to_restore)
        if self.every_seconds is None or batch_idx % trainer.accumulate_grad_batches:
            return
        due = trainer.global_step > 0 and time.monotonic() - self._last >= self.every_seconds
        if any_process(trainer, due):
            self._save(trainer, pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Add what metrics had summed up before to what they have of the first batch."""
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
        """Save when a signal has ended the training, which it does between two batches."""
        if isinstance(exception, Stopped) and exception.between_batches and self._to_restore is None:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save what is to be tested, should the run be interrupted before it is."""
        self._save(trainer, pl_module, done=True)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Of a training that was done before, at least the metrics are there."""
        if self._to_restore is not None and self.resuming:
            trainer.callback_metrics.update(self._to_restore["metrics"])

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add the state to `last.ckpt`; the batch that is about to be trained has not begun in it."""
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
        own = {"random": random_states(), "sums": _sums(trainer), "metrics": _measured(module)}
        self._to_save = {
            "done": done,
            "batch": 0 if done else trainer.fit_loop.epoch_loop.batch_progress.current.completed,
            "logged": logged,
            "metrics": {name: value.cpu() for name, value in trainer.callback_metrics.items()},
            "shown": {name: float(value) for name, value in trainer.progress_bar_metrics.items()},
            "logs": mark(trainer.loggers) if trainer.is_global_zero else {},
            "processes": _of_all(own),
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
        # Lightning takes the batch before for logged or not, according to where it takes the save for made.
        trainer.fit_loop.epoch_loop._batches_that_stepped = state["logged"]
        trainer.callback_metrics.update(state["metrics"])
        trainer.progress_bar_metrics.update(state["shown"])
        own = state["processes"][trainer.global_rank]
        modules = dict(module.named_modules())
        for name, values in own["metrics"].items():
            metric = modules[name]
            if not isinstance(metric, Metric):
                raise ValueError(f"{name} is no metric")
            sums = metric_states(values, metric._defaults, name)
            for attribute, value in move_data_to_device(sums, module.device).items():
                setattr(metric, attribute, value)
        self._sums = dict(own["sums"])
        check_random_states(own["random"])
        restore_random_states(own["random"])


def _of_all(own: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of all processes, in the order of their ranks."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [own]
    everyones: list[dict[str, Any]] = [{} for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(everyones, own)
    return everyones


def _sums(trainer: pl.Trainer) -> dict[str, dict[str, Tensor]]:
    """What has been summed up of the numbers that training logs for the epoch as a whole."""
    return {
        key: {name: value.detach().cpu() for name, value in one.metric_state.items()}
        for key, one in (trainer._results or {}).items()
        if one.is_tensor and one.meta.on_epoch and not one.has_reset
    }


def _add(metric: Any, before: dict[str, Tensor]) -> None:
    for name, value in before.items():
        now = getattr(metric, name)
        reduce = metric.meta.reduce_fx if _takes_one(metric.meta) and name == "value" else torch.add
        setattr(metric, name, reduce(value.to(now.device), now))


def _takes_one(meta: Any) -> bool:
    return bool(meta.is_max_reduction or meta.is_min_reduction)


def _measured(module: pl.LightningModule) -> dict[str, dict[str, Any]]:
    """The states of the metrics that have begun to measure, on the CPU, with the count of their updates."""
    return {
        name: {
            **move_data_to_device(one.metric_state, torch.device("cpu")),
            "_update_count": one._update_count,
        }
        for name, one in module.named_modules()
        if isinstance(one, Metric) and one._update_count
    }
