"""The stages of an experiment: fit (then test), test, predict."""

import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint

from attention_lab.callbacks.restoring import Restoring
from attention_lab.callbacks.resumable import STATE, Resumable
from attention_lab.callbacks.run_logs import rewind
from attention_lab.callbacks.tensorboard import run_loggers
from attention_lab.commandline.overrides import parse_all
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import LabError, Stopped
from attention_lab.experiment import machine_failures
from attention_lab.experiment.build import (
    Config,
    make_data,
    make_task,
    make_trainer,
    to_plain,
)
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.checkpoints import (
    TrainedModel,
    check_model,
    check_same_model,
    find_checkpoints,
    load,
)
from attention_lab.experiment.compiling import compiling
from attention_lab.experiment.console import in_sweep, silence_libraries, tell_shared
from attention_lab.experiment.cost import Cost
from attention_lab.experiment.inputs import read_inputs
from attention_lab.interruption import resume
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.startup_watchdog import StartupWatchdog
from attention_lab.interruption.training_guard import TrainingGuard
from attention_lab.models import Ensemble
from attention_lab.runs import results
from attention_lab.runs.parts import REBUILT
from attention_lab.runs.run_folder import ERROR
from attention_lab.runs.run_names import hparam_columns, hparam_order
from attention_lab.tasks import RECIPE, Task
from attention_lab.tasks.pictures import save_pictures
from attention_lab.text_tables import ESCAPES
from attention_lab.untrusted.checkpoints import read_checkpoint
from attention_lab.untrusted.restored import check_parts, of_interruption
from attention_lab.writing import remove, write_atomically

PICTURES = 20
"""Most examples of a prediction whose heatmaps are written."""


def fit(config: DictConfig) -> float | None:
    """Train, then test the best checkpoint; returns the best monitored value.

    With `resume=auto`, what the folder has of the same run is gone on with; see `resume`.
    """
    plain, folder = _prepare(config)
    with resume.lock_folder(folder), blame_option(plain):
        if plain["resume"] == resume.AUTO:
            results = resume.finished_results(folder)
            if results is not None:
                return results.get("fit/best")
            if resume.has_begun(folder):
                resume.check_same_options(folder, plain)
        elif plain["resume"] is not None:
            raise LabError("resume: choose auto, or a run's folder as resume=<folder> on the command line")
        return _fit(plain, folder)


def _fit(plain: Config, folder: Path) -> float | None:
    own = resume.find_last_checkpoint(folder) if plain["resume"] == resume.AUTO else None
    begun = own if own is not None else _given_checkpoint(plain["ckpt_path"])
    read = None if begun is None else read_checkpoint(begun)
    data = make_data(plain)
    tell_shared(data)
    if plain["resume"] == resume.AUTO:
        check_model(plain, data.sizes, data.codec, None if own is None else read)
    task = make_task(plain, data.sizes, data.codec, trainable=True)
    if read is not None:
        with machine_failures.blame_checkpoint(begun, lambda: False):
            check_parts(read)
        check_same_model(begun, read[RECIPE], task.recipe)
    cost, waiting = Cost(), DeferredSignals()
    guard = TrainingGuard(waiting, folder)
    restoring = Restoring(resuming=own is not None)
    trainer = make_trainer(_console(plain), restoring, guard, cost, *compiling(plain["compile"]))
    cost.resuming = own is not None
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, Resumable):
            callback.resuming = own is not None
    if trainer.is_global_zero:
        with machine_failures.blame_checkpoint(own, lambda: False):
            _begin_files(trainer, plain, task, folder, None if own is None else read)
    started = lambda: getattr(trainer.strategy.launcher, "procs", [])  # noqa: E731
    with (
        waiting,
        StartupWatchdog(waiting, started, folder),
        machine_failures.blame_checkpoint(begun, lambda: guard.begun),
    ):
        trainer.fit(task, datamodule=data, ckpt_path=begun, weights_only=True)
    if waiting.signum is not None:  # after the last batch
        raise Stopped(waiting.signum)
    metrics = _measured(trainer, task, cost)
    best, score = _best(trainer, folder)
    if score is not None:
        metrics["fit/best"] = score
    _test(trainer, task, data, folder, metrics, best, plain["pictures"])
    return score


def _given_checkpoint(given: Any) -> Path | None:
    """The one checkpoint that `ckpt_path` names to go on from, if any."""
    if given is None:
        return None
    paths = find_checkpoints(given)
    if len(paths) > 1:
        raise LabError(f"stage=fit goes on from one checkpoint, and ckpt_path names {len(paths)}")
    return paths[0]


def _measured(trainer: pl.Trainer, task: Task, cost: Cost) -> dict[str, float]:
    """What a fit has cost, and the last value of each metric."""
    return {
        "fit/seconds": cost.whole,
        "fit/steps": float(trainer.global_step),
        "parameters": float(sum(parameter.numel() for parameter in task.parameters())),
        **cost.metrics(trainer.strategy.root_device),
        **{name: float(value) for name, value in trainer.callback_metrics.items()},
    }


def _begin_files(trainer: pl.Trainer, plain: Config, task: Task, folder: Path, own: Config | None) -> None:
    """The run's configuration, also for the HPARAMS tab, and its logs as its last checkpoint knew them."""
    results.write_config(folder, plain)
    if plain["resume"] == resume.AUTO:
        resume.remove_partial_files(folder)
        rewind(
            trainer.loggers, {} if own is None or STATE not in own else of_interruption(own[STATE])["logs"]
        )
    if own is not None:
        return
    hydra = HydraConfig.get()
    for logger in run_loggers(trainer):
        logger.log_settings(hparam_columns(plain, hydra), task.headlines, hparam_order(hydra))


def _best(trainer: pl.Trainer, folder: Path) -> tuple[str | None, float | None]:
    """The run's best checkpoint, if it saved one, and its monitored value, if it has one."""
    callback = trainer.checkpoint_callback
    if not isinstance(callback, ModelCheckpoint):
        return None, None
    # A checkpoint that the run went on from names its own best one, which is not this run's.
    own = bool(callback.best_model_path) and Path(callback.best_model_path).resolve().is_relative_to(
        folder.resolve()
    )
    score = callback.best_model_score
    return callback.best_model_path if own else None, None if score is None else float(score)


def test(config: DictConfig) -> None:
    """Test a checkpoint on its own data, or on data chosen on the command line; several as one model."""
    plain, folder = _prepare(config)
    trained, plain = _from_checkpoint(plain)
    with blame_option(plain):
        data = make_data(plain, trained.codec)
        tell_shared(data)
        trainer = make_trainer(_console(plain))
    results.write_config(folder, plain)
    if isinstance(trained.model, Ensemble) and trainer.is_global_zero and not in_sweep():
        print(f"An ensemble of {len(trained.model.members)} checkpoints, listed in {folder / 'config.yaml'}")
    _test(trainer, trained.task, data, folder, {}, None, plain["pictures"])


def predict(config: DictConfig) -> None:
    """Print the output for each of `inputs`; write `predictions.tsv` and the heatmaps of the first ones."""
    plain, folder = _prepare(config)
    trained, _ = _from_checkpoint(plain)
    lines = read_inputs(plain["inputs"])
    outputs = trained.predict(lines)
    rows = zip(lines, (output.translate(ESCAPES) for output in outputs), strict=True)
    table = "".join(f"{line}\t{output}\n" for line, output in rows)
    print(table, end="")
    write_atomically(folder / "predictions.tsv", table)
    paths = save_pictures(trained.observe(lines[:PICTURES]), folder / "attention")
    print(f"Heatmaps of {min(len(lines), PICTURES)} inputs: {paths[0].parent}", file=sys.stderr)


def _prepare(config: DictConfig) -> tuple[dict[str, Any], Path]:
    """The resolved configuration in plain values, and the run's folder; seeds and threads are set."""
    silence_libraries()
    plain = to_plain(config)
    if plain["threads"] is not None and plain["threads"] < 1:
        raise LabError(f"threads={plain['threads']}: choose 1 or more, or null")
    if plain["seed"] < 0:
        raise LabError(f"seed={plain['seed']}: choose 0 or more")
    if plain["pictures"] < 0:
        raise LabError(f"pictures={plain['pictures']}: choose 0 or more")
    if plain["threads"] is not None:
        torch.set_num_threads(plain["threads"])
    pl.seed_everything(plain["seed"], workers=True, verbose=False)
    return plain, Path(HydraConfig.get().runtime.output_dir)


def _console(plain: Config) -> Config:
    """The configuration for the trainer: a run of a sweep shows no bar and no line for each epoch."""
    if not in_sweep():
        return plain
    return {**plain, "trainer": {**plain["trainer"], "enable_progress_bar": False}}


def _test(
    trainer: pl.Trainer,
    task: Task,
    data: DataModule,
    folder: Path,
    metrics: dict[str, float],
    best: str | None,
    pictures: int,
) -> None:
    """Test, and leave behind metrics, pictures and the closing tables."""
    (tested,) = trainer.test(task, datamodule=data, ckpt_path=best, verbose=False, weights_only=True)
    metrics |= tested
    if not trainer.is_global_zero:
        return
    for logger in run_loggers(trainer):
        logger.close()
    tables = task.write_artifacts(folder, data, pictures)
    results.write_metrics(folder, metrics)  # last: a run that has them is finished
    remove(folder / ERROR)  # of a part of the run before
    if not in_sweep():
        results.print_results(metrics, tables, folder)


def _from_checkpoint(plain: Config) -> tuple[TrainedModel, dict[str, Any]]:
    """The trained model, and the configuration with the checkpoint's own parts in it, of several the first's.

    Options of `data` and `task` given on the command line win over the checkpoint's.
    """
    if plain["ckpt_path"] is None:
        raise LabError(f"stage={plain['stage']} needs ckpt_path=<run folder>/checkpoints/best.ckpt")
    paths = [str(path) for path in find_checkpoints(plain["ckpt_path"])]
    trained = load(paths, lambda kept: _with_overrides(kept, plain), plain["allow"])
    given = {"ckpt_path": paths if len(paths) > 1 else paths[0]}
    return trained, {**plain, **given, **trained.task.recipe["config"]}


def _with_overrides(kept: Config, plain: Config) -> Config:
    """A checkpoint's configuration with what the command line says of `data` and `task`."""
    merged = OmegaConf.create(dict(kept))
    for override in parse_all(HydraConfig.get().overrides.task):
        part, _, option = override.key_or_group.partition(".")
        if part in ("data", "task") and option:
            OmegaConf.update(merged, override.key_or_group, override.value())
        elif part == "data" and plain["data"]["_target_"] != kept["data"]["_target_"]:
            given, needed = plain["data"]["kind"], kept["data"]["kind"]
            if given != needed:
                raise LabError(f"data={override.value()} is {given} data, and the checkpoint needs {needed}")
            merged.data = plain["data"]
        elif override.key_or_group == "model" and plain["model"]["_target_"] == kept["model"]["_target_"]:
            continue  # the same model, named so that options of its task are known
        elif part in REBUILT and part != "data":
            raise LabError(f"stage={plain['stage']} takes {part} from the checkpoint: leave out {part}=...")
    return to_plain(merged)
