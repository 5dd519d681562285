"""The stages of an experiment: fit (then test), test, predict, export."""

import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from attention_lab.callbacks.monitored_metric import MonitoredMetric
from attention_lab.callbacks.progress import JobProgress
from attention_lab.callbacks.restoring import Restoring
from attention_lab.callbacks.resumable import Resumable
from attention_lab.console_text import console_line, console_message, counted, without_controls
from attention_lab.data.reading.codecs import LanguageCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import LabError, Stopped
from attention_lab.experiment.build import Config, make_data, make_task, to_plain
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.checkpoints import check_model_size
from attention_lab.experiment.console import in_sweep, warn_about_data
from attention_lab.experiment.fitting import (
    Introduction,
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
from attention_lab.experiment.given_checkpoint import check_data_size, load_trained_model
from attention_lab.experiment.inputs import Places, read_inputs, with_tabs
from attention_lab.experiment.machine_failures import blame_checkpoint
from attention_lab.experiment.part_options import check_option_types, check_part_options
from attention_lab.experiment.trainer.compiling import compile_callbacks
from attention_lab.experiment.trainer.cost import Cost
from attention_lab.experiment.trainer.devices import check_devices
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.experiment.trainer.options import checked_trainer_options
from attention_lab.files.run_files import CONFIG, HEATMAPS, PREDICTIONS
from attention_lab.files.writing import write_atomically
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.interruption import resume
from attention_lab.interruption.folder_lock import lock_folder
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.startup_watchdog import StartupWatchdog
from attention_lab.interruption.training_guard import TrainingGuard
from attention_lab.loggers import run_loggers
from attention_lab.runs import results
from attention_lab.runs.started import mark_started
from attention_lab.tasks import Task, Transduction
from attention_lab.tasks.classification import LabelPrediction
from attention_lab.tasks.pictures import save_pictures
from attention_lab.text_tables import ESCAPES


def fit(config: DictConfig) -> float | None:
    """Train, then test the best checkpoint; returns the best monitored value.

    With `resume=auto`, the run in the folder is resumed; see `interruption.resume`.
    """
    plain, folder = _prepare(config)
    with lock_folder(folder), blame_option(plain):
        finished = previous_results(plain, folder)
        if finished is not None:
            return finished.get("fit/best")
        start = find_starting_point(plain, folder)
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
        cost, deferred = Cost(), DeferredSignals()
        guard = TrainingGuard(deferred, folder)
        restoring = Restoring(resuming=start.resuming)
        more = (*compile_callbacks(plain["compile"]), *_metric_check(plain))
        trainer = make_trainer(_console(plain), *_messages(plain, folder), restoring, guard, cost, *more)
        check_parameters(trainer, task)
        check_tested(trainer, task, data)
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, Cost | Resumable):
                callback.resuming = start.resuming
        mark_started(folder, first=trainer.is_global_zero)
        if trainer.is_global_zero:
            with blame_checkpoint(start.path if start.resuming else None, lambda: False):
                write_settings(trainer, plain, task, folder, start)
        with (
            deferred,
            StartupWatchdog(deferred, lambda: getattr(trainer.strategy.launcher, "procs", []), folder),
            blame_checkpoint(start.path, lambda: guard.started),
        ):
            trainer.fit(task, datamodule=data, ckpt_path=start.path, weights_only=True)
        if deferred.signum is not None:  # after the last batch
            raise Stopped(deferred.signum)
        if (warning := no_best_checkpoint_warning(trainer)) and trainer.is_global_zero and not in_sweep():
            print(console_message("Warning", warning), file=sys.stderr)
        best, score = best_checkpoint(trainer, folder)
        metrics = fit_metrics(trainer, task, cost) | ({} if score is None else {"fit/best": score})
        task.pictures_format = plain["pictures_format"]
        # The best checkpoint of a resumed run may come from others, too.
        others = Path(best) if start.resuming and best else None
        with blame_checkpoint(others, lambda: restoring.testing, "it cannot be tested"):
            _test(trainer, task, data, folder, metrics, best, plain["pictures"])
        return score


def test(config: DictConfig) -> None:
    """Test a checkpoint, or an ensemble of several, on its own data or on data given on the command line."""
    plain, folder = _prepare(config)
    trained, tested, split = load_trained_model(plain)
    check_data_size(plain, tested)
    plain = tested
    with blame_option(plain):
        data = make_data(plain, trained.codec)
        warn_about_data(data, plain["stage"], split)
        trainer = make_trainer(_console(plain))
    mark_started(folder, first=trainer.is_global_zero)
    results.write_config(folder, plain)
    results.write_training_options(folder, plain)
    if (count := len(trained.files)) > 1 and trainer.is_global_zero and not in_sweep():
        print(console_line(f"An ensemble of {count} checkpoints, listed in {folder / CONFIG}"))
    trained.task.pictures_format = plain["pictures_format"]
    _test(trainer, trained.task, data, folder, {}, None, plain["pictures"])


def predict(config: DictConfig) -> None:
    """Print the output for each of `inputs`; write `predictions.tsv` and heatmaps of the first `pictures`.

    An empty input has an empty output, except for a language model, which continues it.
    """
    plain, folder = _prepare(config)
    checked_trainer_options(plain["trainer"])  # although none is needed
    trained = load_trained_model(plain).trained
    inputs, places = plain["inputs"], Places.of(plain["inputs"])
    lines = read_inputs(inputs, HydraConfig.get().overrides.task)
    if trained.reads_columns and isinstance(inputs, list):
        lines = with_tabs(lines)
    readable = readable_lines(trained, lines, places)
    with places.blame_lines(list(readable)):
        table = prediction_table(trained, lines, readable)
    print(table, end="", flush=True)
    write_atomically(folder / PREDICTIONS, table)
    drawn = list(readable.values())[: plain["pictures"]]
    paths = save_pictures(trained.observe(drawn), folder / HEATMAPS, plain["pictures_format"])
    if paths:
        some = f"{len(drawn)} of " if len(drawn) < len(readable) else ""
        inputs_drawn = f"{some}{counted(len(readable), 'input')}"
        print(console_line(f"Heatmaps of {inputs_drawn}: {paths[0].parent}"), file=sys.stderr)


def readable_lines(trained: TrainedModel[Task], lines: list[str], places: Places) -> dict[int, str]:
    """The inputs that can be predicted, by line number; warns about empty ones and about unseen symbols.

    Raises:
        LabError: there are none, or one of them cannot be read.
    """
    continued = isinstance(trained.codec, LanguageCodec)
    readable = {number: line for number, line in enumerate(lines, start=1) if continued or line.strip()}
    if not readable:
        raise LabError(f"{places.source or 'inputs'}: all inputs are empty")
    empty = [number for number in range(1, len(lines) + 1) if number not in readable]
    with places.blame_lines(range(1, len(lines) + 1)):
        unseen = trained.unseen_symbols(lines, *places)
    for warning in filter(None, (places.empty_warning(empty, len(lines)) if empty else "", unseen)):
        print(console_message("Warning", warning), file=sys.stderr)
    return readable


def export(config: DictConfig) -> None:
    """Export the model of `ckpt_path` to the file named by the option `export`, in this job's folder."""
    plain = to_plain(config)
    checked_trainer_options(plain["trainer"])
    trained = load_trained_model(plain).trained
    for path in trained.export(Path(HydraConfig.get().runtime.output_dir) / plain["export"]):
        print(console_message("Exported", path))


def prediction_table(trained: TrainedModel[Task], lines: list[str], readable: dict[int, str]) -> str:
    """`input<TAB>output`; with `task.n_best`, `input<TAB>rank<TAB>score<TAB>output` for each output.

    Lines that are not in `readable` have empty cells. No text in the table controls a terminal.
    """
    n = trained.task.n_best if isinstance(trained.task, Transduction | LabelPrediction) else 1
    texts = list(readable.values())
    if n == 1:
        found = ([output.translate(ESCAPES)] for output in trained.predict(texts))
    else:
        found = (
            [
                f"{rank}\t{score:.4f}\t{output.translate(ESCAPES)}"
                for rank, (output, score) in enumerate(best, 1)
            ]
            for best in trained.predict_n_best(texts, n)
        )
    cells = dict(zip(readable, found, strict=True))
    empty = [""] if n == 1 else ["\t\t"]
    rows = [
        f"{line}\t{cell}" for number, line in enumerate(lines, start=1) for cell in cells.get(number, empty)
    ]
    return "".join(f"{without_controls(row)}\n" for row in rows)


def _prepare(config: DictConfig) -> tuple[dict[str, Any], Path]:
    """Set seeds and threads; return the resolved configuration as plain values, and the run's folder."""
    plain = to_plain(config)
    if plain["threads"] is not None:
        torch.set_num_threads(plain["threads"])
    pl.seed_everything(plain["seed"], workers=True, verbose=False)
    return plain, Path(HydraConfig.get().runtime.output_dir)


def _metric_check(plain: Config) -> list[pl.Callback]:
    """A check of the monitored metric if it was typed; those in `conf/` exist."""
    typed = any(one.startswith("monitor.metric=") for one in HydraConfig.get().overrides.task)
    return [MonitoredMetric(plain["monitor"]["metric"])] if typed and plain["monitor"]["metric"] else []


def _console(plain: Config) -> Config:
    """The configuration for the trainer: in a sweep, without progress bar and table of epochs."""
    if not in_sweep():
        return plain
    return {**plain, "trainer": {**plain["trainer"], "enable_progress_bar": False}}


def _messages(plain: Config, folder: Path) -> list[pl.Callback]:
    """What training prints: an introduction; in a sweep, the job's progress, unless that is switched off."""
    if not in_sweep():
        return [Introduction(folder)]
    shown = plain["trainer"].get("enable_progress_bar", True) and "progress_bar" in plain["callbacks"]
    return [JobProgress()] if shown else []


def _test(
    trainer: pl.Trainer,
    task: Task,
    data: DataModule,
    folder: Path,
    metrics: dict[str, float],
    best: str | None,
    pictures: int,
) -> None:
    """Test, write metrics and artifacts, and print the results."""
    (tested,) = trainer.test(task, datamodule=data, ckpt_path=best, verbose=False, weights_only=True)
    metrics |= tested
    if not trainer.is_global_zero:
        return
    for logger in run_loggers(trainer):
        logger.log_results(metrics, trainer.global_step)
        logger.close()
    tables = task.write_artifacts(folder, data, pictures)
    results.write_metrics(folder, metrics)  # last: they mark the run as finished
    if not in_sweep():
        results.print_results(metrics, tables, folder)
