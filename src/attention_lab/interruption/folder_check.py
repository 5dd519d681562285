"""Check the folder of a run or sweep before Hydra writes to it."""

import os
import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from omegaconf.errors import InterpolationResolutionError

from attention_lab.errors import LabError
from attention_lab.interruption.resume import AUTO, has_checkpoint
from attention_lab.interruption.signals import OWNED_BY_SWEEP, is_rank_zero
from attention_lab.text_tables import console_message
from attention_lab.untrusted.run_configuration import MOST_FILES, check_links

MOST_JOBS = 100
"""A sweep's folder may have as many files as that many runs."""


class FolderCheck(Callback):
    """A Hydra callback that rejects a folder in which files could be lost.

    A run or sweep that continues may have its folder from others: no link may lead out of it, see
    `check_links`. (`resume=<folder>` runs the same check when it is expanded.) A new run must not replace
    the checkpoints of an older one.
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the run's folder if `resume=auto` continues a run, or a new one is trained in it."""
        folder = Path(config.hydra.run.dir)
        if config.get("resume") == AUTO:
            _check(folder, MOST_FILES)
        elif config.get("stage") == "fit" and config.get("resume") is None and _is_single_run():
            _check_new(folder)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the sweep's folder, with those of its jobs, if a sweep or a search continues."""
        if config.get("resume") == AUTO or config.get("sweep") is not None:
            try:
                folder = config.hydra.sweep.dir
            except InterpolationResolutionError:  # it refers to Hydra's choices, which are not set yet
                HydraConfig.instance().set_config(config)
                folder = config.hydra.sweep.dir
            _check(Path(folder), MOST_FILES * MOST_JOBS)


def _is_single_run() -> bool:
    """Whether this is the first process of a run, and the run is not a job of a sweep."""
    return is_rank_zero() and OWNED_BY_SWEEP not in os.environ


def _check_new(folder: Path) -> None:
    if has_checkpoint(folder):
        reason = f"{folder} has checkpoints of a run: continue it with resume=auto, or choose another folder"
        sys.exit(console_message("Error", reason))


def _check(folder: Path, most: int) -> None:
    if not folder.is_dir():
        return
    try:
        check_links(folder, most)
    except LabError as error:
        sys.exit(console_message("Error", error))  # Hydra turns any other exception into a warning
