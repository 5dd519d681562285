"""Before and after training: the starting point, checks, the run's files, and its metrics."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from pytorch_lightning.callbacks import ModelCheckpoint

from attention_lab.callbacks.resumable import STATE
from attention_lab.callbacks.run_logs import rewind
from attention_lab.commandline.overrides import as_text, option_names
from attention_lab.console_text import console_message, counted, printable
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import LabError
from attention_lab.experiment.build import Config
from attention_lab.experiment.checkpoints import check_same_model
from attention_lab.experiment.console import in_sweep
from attention_lab.experiment.machine_failures import blame_checkpoint
from attention_lab.experiment.trainer.cost import Cost
from attention_lab.experiment.trainer.sharding import FullyShardedStrategy
from attention_lab.files.paths import is_inside, short_path
from attention_lab.files.run_files import CHECKPOINTS, HEATMAPS, METRICS, RECIPE
from attention_lab.files.writing import remove_partial_files
from attention_lab.interruption import resume
from attention_lab.loggers import run_loggers
from attention_lab.runs import results
from attention_lab.runs.checkpoint_paths import one_checkpoint
from attention_lab.runs.hparams import hparam_columns, hparam_order
from attention_lab.runs.run_folder import read_choices
from attention_lab.tasks import Regression, Task
from attention_lab.tasks.sequence_generation import check_sequences
from attention_lab.tasks.transduction import Transduction
from attention_lab.untrusted.checkpoints import read_checkpoint
from attention_lab.untrusted.training_state import check_training_state, interrupted_epoch_state

_PLAIN = {"normalizer": "softmax", "pooling": "soft", "window": "global"}
"""The parts that a run's first line names only if they are others than these."""


@dataclass(frozen=True)
class Start:
    """The starting point of training.

    Attributes:
        path: a checkpoint; None for fresh parameters.
        content: its content.
        resuming: whether the checkpoint is the run's own, so that the run is resumed.
    """

    path: Path | None
    content: dict[str, Any] | None
    resuming: bool

    @property
    def own(self) -> dict[str, Any] | None:
        """The checkpoint's content if it is the run's own."""
        return self.content if self.resuming else None

    def check(self, task: Task) -> None:
        """Raise LabError if the checkpoint is damaged or belongs to another model."""
        if self.content is None:
            return
        with blame_checkpoint(self.path, lambda: False):
            check_training_state(self.content)
        check_same_model(self.path, self.content[RECIPE], task.recipe)


def find_starting_point(plain: Config, folder: Path) -> Start:
    """The run's own last checkpoint if `resume=auto` finds one, otherwise the one given by `ckpt_path`."""
    again = plain["resume"] == resume.AUTO
    own = resume.find_last_checkpoint(folder, expected=not in_sweep()) if again else None
    if own is not None:
        return Start(*own, resuming=True)
    path = one_checkpoint(plain["ckpt_path"])
    return Start(path, None if path is None else read_checkpoint(path), resuming=False)


def previous_results(plain: Config, folder: Path) -> dict[str, float] | None:
    """The metrics of the run in the folder if `resume=auto` finds it finished; prints so outside a sweep.

    Raises:
        LabError: the run in the folder has other options, or `resume` has another value.
    """
    if plain["resume"] not in (None, resume.AUTO):
        raise LabError("resume: choose auto, or a run's folder as resume=<folder> on the command line")
    if plain["resume"] is None:
        return None
    if resume.has_finished(folder) or resume.has_checkpoint(folder):
        resume.check_same_options(folder, plain, option_names(HydraConfig.get().overrides.task))
    finished = resume.finished_results(folder)
    if finished is not None and not in_sweep():
        where = f"its results are in {short_path(folder / METRICS)}"
        print(console_message("The run has already finished", where))
    return finished


def check_last_checkpoint(callbacks: Config) -> None:
    """Raise LabError if a callback of Lightning's would replace the `last.ckpt` of `Resumable`.

    Lightning's file lacks state that a resumed run needs to give the results of an uninterrupted one.
    """
    own = callbacks.get("resumable", {}).get("dirpath")
    for name, options in callbacks.items():
        given = {"save_last": options.get("save_last"), "filename": options.get("filename") == "last"}
        option = next((one for one, replaces in given.items() if replaces), None)
        if own and option and options.get("dirpath") in (None, own):
            raise LabError(
                f"callbacks.{name}.{option}={as_text(options[option])} would replace checkpoints/last.ckpt, "
                "which every run has and from which it is resumed: leave it out, or set "
                f"callbacks.{name}.dirpath=..."
            )


def check_tested(trainer: pl.Trainer, task: Task, data: DataModule) -> None:
    """Raise LabError now if the test after training would fail.

    It would fail if there are too many beams for the batches, or if `trainer.limit_test_batches` leaves
    nothing to test.
    """
    loader = data.test_dataloader()
    if isinstance(task, Transduction) and task.beam_size > 1:
        check_sequences("task.beam_size", task.beam_size, max(map(len, loader.sampler), default=0))
    limit, batches = trainer.limit_test_batches, len(loader)
    if isinstance(limit, float) and batches and int(limit * batches) < 1:
        raise LabError(
            f"trainer.limit_test_batches={limit} is less than one batch of the test, which has {batches}: "
            "choose a number of batches, such as 1"
        )


def check_parameters(trainer: pl.Trainer, task: Task) -> None:
    """Raise LabError if several processes have no parameters to train, or cannot divide them."""
    if isinstance(trainer.strategy, FullyShardedStrategy) and isinstance(task, Regression):
        raise LabError(
            "trainer=fsdp is for large models, but kernel regression has few parameters: choose trainer=ddp"
        )
    if trainer.world_size > 1 and not any(one.requires_grad for one in task.parameters()):
        name = type(task.model).__name__
        raise LabError(f"{name} has no parameters to train in several processes: set trainer.devices=1")


def write_settings(trainer: pl.Trainer, plain: Config, task: Task, folder: Path, start: Start) -> None:
    """Write the configuration to the folder and the loggers, and rewind the logs to the last checkpoint."""
    results.write_config(folder, plain)
    if plain["resume"] == resume.AUTO:
        remove_partial_files(folder, folder / CHECKPOINTS, folder / HEATMAPS)
        own = start.own or {}
        rewind(trainer.loggers, interrupted_epoch_state(own[STATE])["logs"] if STATE in own else {})
    hydra = HydraConfig.get()
    monitored = str(plain["monitor"]["metric"]).replace("validation/", "test/")
    headlines = tuple(sorted(task.headlines, key=lambda name: name != monitored))
    for logger in run_loggers(trainer):
        if start.resuming:
            logger.continue_run()
        else:
            logger.log_settings(hparam_columns(plain, hydra), headlines, hparam_order(hydra))


class Introduction(pl.Callback):
    """Prints what is trained, on how much data, and where, when training is about to begin.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print it, such as `model=nw data=sine scoring=gaussian: 50 training examples, ...`."""
        if not trainer.is_global_zero:
            return
        # A resumed run is composed without the user's own groups; the record in its folder names them.
        choices = {**HydraConfig.get().runtime.choices, **read_choices(self.folder)}
        others = [part for part, plain in _PLAIN.items() if choices.get(part, plain) != plain]
        named = ("model", "data", "scoring", *others)
        parts = " ".join(f"{part}={printable(choices[part])}" for part in named)
        data = trainer.datamodule  # type: ignore[attr-defined]
        examples = counted(len(data.splits.train), "training example")
        parameters = counted(sum(one.numel() for one in pl_module.parameters()), "parameter")
        device, devices = trainer.strategy.root_device.type, trainer.world_size
        where = device if devices == 1 else f"{devices} {device} devices"
        results.print_start(f"{parts}: {examples}, {parameters}, on {where}", self.folder)


def fit_metrics(trainer: pl.Trainer, task: Task, cost: Cost) -> dict[str, float]:
    """The cost of a fit and the last value of each metric."""
    return {
        "fit/seconds": cost.total_seconds,
        "fit/steps": float(trainer.global_step),
        "parameters": float(sum(parameter.numel() for parameter in task.parameters())),
        **cost.metrics(trainer.strategy.root_device),
        **{name: float(value) for name, value in trainer.callback_metrics.items()},
    }


def no_best_checkpoint_warning(trainer: pl.Trainer) -> str:
    """A warning if training saved no best checkpoint because no validation has run; empty otherwise."""
    callback = trainer.checkpoint_callback
    if not isinstance(callback, ModelCheckpoint) or callback.best_model_path:
        return ""
    if callback.monitor is None:
        measured = any(name.startswith("validation/") for name in trainer.callback_metrics)
        option = "check_val_every_n_epoch" if trainer.limit_val_batches else "limit_val_batches"
        option = option if trainer.max_epochs != 0 else "max_epochs"
        missing = f"run with trainer.{option}={getattr(trainer, option)}"
    else:
        measured = callback.monitor in trainer.callback_metrics
        missing = f"measured {callback.monitor}"
    if measured:
        return ""
    return f"no validation has {missing}: there is no best.ckpt; the last weights are tested"


def best_checkpoint(trainer: pl.Trainer, folder: Path) -> tuple[str | None, float | None]:
    """The run's best checkpoint, if it saved one, and its monitored value, if it has one."""
    callback = trainer.checkpoint_callback
    if not isinstance(callback, ModelCheckpoint):
        return None, None
    # With ckpt_path, this may still be the best checkpoint of the run it came from.
    own = bool(callback.best_model_path) and is_inside(callback.best_model_path, folder)
    score = callback.best_model_score
    return callback.best_model_path if own else None, None if score is None else float(score)
