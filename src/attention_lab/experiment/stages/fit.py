"""stage=fit: train a model, then test its best checkpoint."""

import sys
from pathlib import Path

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from attention_lab.callbacks.monitored_metric import METRIC, MonitoredMetrics
from attention_lab.callbacks.progress import JobProgress
from attention_lab.callbacks.restoring import Restoring
from attention_lab.callbacks.resumable import Resumable
from attention_lab.commandline.overrides import option_names
from attention_lab.console_text import console_message
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import Stopped
from attention_lab.experiment.build import Config, make_data, make_task
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.checkpoints import check_model_size
from attention_lab.experiment.console import in_sweep, warn_about_data
from attention_lab.experiment.fitting import (
    Introduction,
    Start,
    best_checkpoint,
    check_last_checkpoint,
    check_parameters,
    check_tested,
    find_starting_point,
    fit_metrics,
    no_best_checkpoint_warning,
    previous_results,
    write_settings,
)
from attention_lab.experiment.machine_failures import blame_checkpoint
from attention_lab.experiment.part_options import check_option_types, check_part_options
from attention_lab.experiment.stages.shared import prepare, run_test, trainer_configuration
from attention_lab.experiment.trainer.compiling import compile_callbacks
from attention_lab.experiment.trainer.cost import Cost
from attention_lab.experiment.trainer.devices import check_devices
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.interruption import resume
from attention_lab.interruption.folder_lock import lock_folder
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.startup_watchdog import StartupWatchdog
from attention_lab.interruption.training_guard import TrainingGuard
from attention_lab.runs.started import mark_started
from attention_lab.tasks import Task


def fit(config: DictConfig) -> float | None:
    """Train, then test the best checkpoint; returns the best monitored value.

    With `resume=auto`, the run in the folder is resumed; see `interruption.resume`.
    """
    plain, folder = prepare(config)
    with lock_folder(folder), blame_option(plain):
        finished = previous_results(plain, folder)
        if finished is not None:
            return finished.get("fit/best")
        start = find_starting_point(plain, folder)
        data, task = _data_and_task(plain, start)
        cost, deferred = Cost(), DeferredSignals()
        guard = TrainingGuard(deferred, folder)
        restoring = Restoring(resuming=start.resuming)
        more = (*compile_callbacks(plain["compile"]), _metric_check(plain))
        callbacks = (*_messages(plain, folder), restoring, guard, cost, *more)
        trainer = make_trainer(trainer_configuration(plain), *callbacks)
        check_parameters(trainer, task)
        check_tested(trainer, task, data)
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, Cost | Resumable):
                callback.resuming = start.resuming
        mark_started(folder, first=trainer.is_global_zero)
        if trainer.is_global_zero:
            with blame_checkpoint(start.path if start.resuming else None, lambda: False):
                write_settings(trainer, plain, task, folder, start)
        _train(trainer, task, data, start, guard)
        if (warning := no_best_checkpoint_warning(trainer)) and trainer.is_global_zero and not in_sweep():
            print(console_message("Warning", warning), file=sys.stderr)
        best, score = best_checkpoint(trainer, folder)
        metrics = fit_metrics(trainer, task, cost) | ({} if score is None else {"fit/best": score})
        task.pictures_format = plain["pictures_format"]
        # The best checkpoint of a resumed run may come from others, too.
        others = Path(best) if start.resuming and best else None
        with blame_checkpoint(others, lambda: restoring.testing, "it cannot be tested"):
            run_test(trainer, task, data, folder, metrics, best, plain["pictures"])
        return score


def _data_and_task(plain: Config, start: Start) -> tuple[DataModule, Task]:
    """The data, and the task with its model, after all checks that need no trainer."""
    if not start.resuming:
        check_part_options(plain)
        check_last_checkpoint(plain["callbacks"])
    check_devices(plain["trainer"])
    check_option_types(plain)
    data = make_data(plain)
    warn_about_data(data, plain["stage"])
    if plain["resume"] == resume.AUTO:
        check_model_size(plain, data.sizes, data.codec, start.path, start.own)
    task = make_task(plain, data.sizes, data.codec, trainable=True)
    start.check(task)
    return data, task


def _train(trainer: pl.Trainer, task: Task, data: DataModule, start: Start, guard: TrainingGuard) -> None:
    """Train from the starting point. Raises Stopped if a signal has stopped training."""
    deferred, folder = guard.deferred, guard.folder
    with (
        deferred,
        StartupWatchdog(deferred, lambda: getattr(trainer.strategy.launcher, "procs", []), folder),
        blame_checkpoint(start.path, lambda: guard.started),
    ):
        trainer.fit(task, datamodule=data, ckpt_path=start.path, weights_only=True)
    if deferred.signum is not None:  # after the last batch
        raise Stopped(deferred.signum)


def _metric_check(plain: Config) -> MonitoredMetrics:
    """A check of the monitored metrics; early if the command line gives one, since those in `conf/` exist."""
    parts = plain["callbacks"].items()
    metrics = {METRIC: plain["monitor"]["metric"]}
    metrics |= {f"callbacks.{name}.monitor": part.get("monitor") for name, part in parts}
    monitored = {option: metric for option, metric in metrics.items() if isinstance(metric, str)}
    typed = option_names(HydraConfig.get().overrides.task)
    return MonitoredMetrics(monitored, early=not monitored.keys().isdisjoint(typed))


def _messages(plain: Config, folder: Path) -> list[pl.Callback]:
    """The callbacks that print: an introduction; in a sweep, the job's progress, unless switched off."""
    if not in_sweep():
        return [Introduction(folder)]
    shown = plain["trainer"].get("enable_progress_bar", True) and "progress_bar" in plain["callbacks"]
    return [JobProgress()] if shown else []
