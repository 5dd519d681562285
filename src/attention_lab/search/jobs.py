"""Hydra callbacks for the jobs of a search, which prints its own results."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from attention_lab.files.run_files import ERROR, METRICS, PRUNED
from attention_lab.leaderboard.hydra_callback import LeaderboardCallback


class SearchJobs(LeaderboardCallback):
    """Replaces the leaderboard of a sweep: records why trials failed and prints nothing."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Print nothing."""

    def outdated_files(self, config: DictConfig) -> tuple[str, ...]:
        """The results, failure and record of pruning that an earlier study may have left."""
        return ERROR, METRICS, PRUNED

    def begin_line(self, config: DictConfig, folder: Path) -> None:
        """Print nothing: the search itself begins the trial's line."""

    def end_line(self, result: str) -> None:
        """Print nothing: the search itself ends the trial's line."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print nothing: the search has printed its table."""
