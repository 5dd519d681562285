"""Steps that several stages share: seeds and threads, the output of the trainer, and the test."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from attention_lab.data.reading.datamodule import DataModule
from attention_lab.experiment.build import Config, to_plain
from attention_lab.experiment.console import in_sweep
from attention_lab.loggers import run_loggers
from attention_lab.runs import results
from attention_lab.tasks import Task


def prepare(config: DictConfig) -> tuple[dict[str, Any], Path]:
    """Set seeds and threads; return the resolved configuration as plain values, and the run's folder."""
    plain = to_plain(config)
    if plain["threads"] is not None:
        torch.set_num_threads(plain["threads"])
    pl.seed_everything(plain["seed"], workers=True, verbose=False)
    return plain, Path(HydraConfig.get().runtime.output_dir)


def trainer_configuration(plain: Config) -> Config:
    """The configuration for the trainer: in a sweep, without progress bar and table of epochs."""
    if not in_sweep():
        return plain
    return {**plain, "trainer": {**plain["trainer"], "enable_progress_bar": False}}


def run_test(
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
    views = []
    for logger in run_loggers(trainer):
        logger.log_results(metrics, trainer.global_step)
        views.append(logger.how_to_view())
        logger.close()
    tables = task.write_artifacts(folder, data, pictures)
    results.write_metrics(folder, metrics)  # last: they mark the run as finished
    if not in_sweep():
        results.print_results(metrics, tables, folder, views)
