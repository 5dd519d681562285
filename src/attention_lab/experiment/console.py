"""Reduce the console output to a few lines of this program and one progress bar."""

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from attention_lab.commandline.overrides import option_names
from attention_lab.console_text import console_message, counted
from attention_lab.interruption.ranks import is_rank_zero

if TYPE_CHECKING:  # importing it would import torch
    from attention_lab.data.reading.datamodule import DataModule

QUIET = ("pytorch_lightning", "lightning_fabric", "tensorboard", "fontTools")
ON_REQUEST = ("pytorch_lightning.callbacks", "pytorch_lightning.profilers")
"""Loggers of what the user has asked for: a model summary, a profile, a callback with `verbose=true`."""
IGNORED = (
    r".*does not have many workers.*",  # the data is in memory, so workers would only add overhead
    r".*`training_step` returned `None`.*",  # a model without parameters
    r".*`LightningModule.configure_optimizers` returned `None`.*",
    r".*recommended to use .*devices=1.*",  # evaluation gives every example to exactly one process
    r".*treespec, LeafSpec.*",
    r".*Checkpoint directory .* exists and is not empty.*",
    r".*number of training batches .* smaller than the logging interval.*",
    r".*GPU available but not used.*",
    r"The `srun` command is available on your system but is not used.*",  # one process does not need it
    r".*resuming from a checkpoint that ended before the epoch ended.*",  # batches resume where they stopped
    r"The dirpath has changed from.*",  # this run continues another one in a new folder
    r".*could not find the monitored key.*",  # no validation has run, which a line of our own says
    r".*lr_scheduler.step\(\).*before.*optimizer.step\(\).*",
)


def silence_libraries() -> None:
    """Silence the messages of Lightning and its libraries about themselves, and put each warning on one line.

    Warnings repeat names of folders and metrics, which may come from others and try to control a terminal.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ON_REQUEST:
        logging.getLogger(name).setLevel(logging.INFO)
    # Hydra reports a class that cannot be found, which an error of our own names.
    logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)
    # Lightning warns of an experiment that MLflow does not have yet.
    logging.getLogger("pytorch_lightning.loggers.mlflow").setLevel(logging.ERROR)
    for message in IGNORED:
        warnings.filterwarnings("ignore", message=f"(?s){message}")  # a folder's name may have several lines
    warnings.formatwarning = _one_line
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"{console_message(f'{filename}:{lineno}: {category.__name__}', message)}\n"


def warn_about_data(data: "DataModule", stage: str, file: str | None = None) -> None:
    """Warn of examples shared by several splits and of symbols unseen in training; once per sweep.

    Hints about options follow, except for options given on the command line.

    Args:
        data: the data, after `setup`.
        stage: the stage; "test" leaves out the symbols of the validation split, which it does not use.
        file: a file whose test split alone is tested although the model was not trained on the rest of it.
    """
    if (in_sweep() and HydraConfig.get().job.num > 0) or not is_rank_zero():
        return
    unseen = (data.unseen.test,) if stage == "test" else (data.unseen.validation, data.unseen.test)
    given = option_names(HydraConfig.get().overrides.task)
    found = [data.shared, *unseen]
    if file:
        tested = counted(len(data.splits.test), "example")
        partly = f"{file} is split at random, and only its test split ({tested}) is tested"
        found = [f"{partly}; to test on the whole file, give data.test_file={file} instead", *found]
    lines = [console_message("Warning", text) for text in dict.fromkeys(found) if text]
    lines += [console_message("Hint", text) for option, text in data.hints.items() if option not in given]
    if lines:  # one write, so that in a sweep it appears above the job's line
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def in_sweep() -> bool:
    """Whether this run is a job of a sweep, which prints one line instead of tables."""
    return not OmegaConf.is_missing(HydraConfig.get().job, "num")
