"""Check the folder of a run or sweep that is about to continue, before Hydra writes to it."""

import sys
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from attention_lab.errors import LabError
from attention_lab.interruption.resume import AUTO
from attention_lab.text_tables import console_message
from attention_lab.untrusted.run_configuration import MOST_FILES, check_links

MOST_JOBS = 100
"""A sweep's folder may have as many files as that many runs."""


class FolderCheck(Callback):
    """A Hydra callback that rejects a folder with links that lead out of it; see `check_links`.

    The folder may come from others, and Hydra is about to write its log and options to it.
    `resume=<folder>` runs the same check when it is expanded.
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the run's folder if `resume=auto` continues a run."""
        if config.get("resume") == AUTO:
            _check(Path(config.hydra.run.dir), MOST_FILES)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the sweep's folder, with those of its jobs, if a sweep or a search continues."""
        if config.get("resume") == AUTO or config.get("sweep") is not None:
            _check(Path(config.hydra.sweep.dir), MOST_FILES * MOST_JOBS)


def _check(folder: Path, most: int) -> None:
    if not folder.is_dir():
        return
    try:
        check_links(folder, most)
    except LabError as error:
        sys.exit(console_message("Error", error))  # Hydra turns any other exception into a warning
