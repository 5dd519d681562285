"""Keep the console quiet: a few lines of ours and one progress bar; everything else goes to the log file."""

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from attention_lab.commandline.overrides import keys
from attention_lab.interruption.signals import is_rank_zero

if TYPE_CHECKING:  # it would import torch
    from attention_lab.data.reading.datamodule import DataModule

QUIET = (
    "pytorch_lightning",
    "lightning",
    "lightning_fabric",
    "lightning.pytorch",
    "lightning.fabric",
    "tensorboard",
)
IGNORED = (
    r".*does not have many workers.*",  # the data is in memory: workers would only cost
    r".*`training_step` returned `None`.*",  # a model without parameters
    r".*`LightningModule.configure_optimizers` returned `None`.*",
    r".*recommended to use .*devices=1.*",  # evaluation deals every example to exactly one process
    r".*treespec, LeafSpec.*",
    r".*Checkpoint directory .* exists and is not empty.*",
    r".*number of training batches .* smaller than the logging interval.*",
    r".*GPU available but not used.*",
    r".*resuming from a checkpoint that ended before the epoch ended.*",  # batches resume where they stopped
    r"The dirpath has changed from.*",  # a run that continues another one in a new folder
    r".*lr_scheduler.step\(\).*before.*optimizer.step\(\).*",
)


def silence_libraries() -> None:
    """Silence the messages of Lightning and its libraries about themselves."""
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in IGNORED:
        warnings.filterwarnings("ignore", message=message)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def warn_of_data(data: "DataModule", stage: str) -> None:
    """Warn, once in a sweep, of examples that parts of the data share and of symbols that training lacks.

    Hints about options follow, except those that are given on the command line.

    Args:
        data: the data, after `setup`.
        stage: "test" leaves out the symbols of the validation part, which is not used.
    """
    if (in_sweep() and HydraConfig.get().job.num > 0) or not is_rank_zero():
        return
    unseen = (data.unseen.test,) if stage == "test" else (data.unseen.validation, data.unseen.test)
    given = keys(HydraConfig.get().overrides.task)
    lines = [
        *(f"Warning: {line}" for line in dict.fromkeys((data.shared, *unseen)) if line),
        *(f"Hint: {hint}" for option, hint in data.hints.items() if option not in given),
    ]
    if lines:  # written at once, above the line of a job of a sweep
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def in_sweep() -> bool:
    """Whether this run is a job of a sweep, which prints one line instead of tables."""
    return not OmegaConf.is_missing(HydraConfig.get().job, "num")
