"""A study of one number, opened as by each process that shares it."""

from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution

from attention_lab.search.storage import storage_url
from attention_lab.search.study import SharedStudy


def join_study(folder: Path, wanted: int = 3, seed: int | None = None) -> SharedStudy:
    """Open the study in a folder, as one more process would; the seed is that of its random sampler."""
    return SharedStudy(
        name="study",
        url=storage_url(None, folder),
        folder=folder,
        wanted=wanted,
        heartbeat=60,
        distributions={"x": FloatDistribution(0.0, 1.0)},
        sampler=optuna.samplers.RandomSampler(seed),
        pruner=optuna.pruners.NopPruner(),
    )
