"""Hydra callbacks for the jobs of a search, which prints its own results."""

from pathlib import Path
from typing import Any

from hydra.types import RunMode, TaskFunction
from omegaconf import DictConfig

from attention_lab.files.run_files import METRICS, PRUNED
from attention_lab.files.writing import remove
from attention_lab.leaderboard.hydra_callback import LeaderboardCallback


class SearchJobs(LeaderboardCallback):
    """Replaces the leaderboard of a sweep: records why trials failed and prints nothing."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Print nothing."""

    def on_job_start(self, config: DictConfig, *, task_function: TaskFunction, **kwargs: Any) -> None:
        """Remove the results, and the record of pruning, that an earlier study left in the folder."""
        super().on_job_start(config, task_function=task_function, **kwargs)
        if config.hydra.mode == RunMode.MULTIRUN:
            for name in (METRICS, PRUNED):
                remove(Path(config.hydra.runtime.output_dir) / name)

    def begin_line(self, config: DictConfig, folder: Path) -> None:
        """Print nothing: the search itself begins the trial's line."""

    def end_line(self, result: str) -> None:
        """Print nothing: the search itself ends the trial's line."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print nothing: the search has printed its table."""
