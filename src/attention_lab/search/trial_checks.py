"""Check the trials of a study, which may come from others: the best one becomes a configuration."""

import math
from collections.abc import Mapping, Sequence

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState


def check_results(trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution]) -> None:
    """Check that every complete trial has one finite number as its result, and options in the search space.

    Raises:
        ValueError, KeyError: a trial lacks one of them.
    """
    for trial in trials:
        if trial.state != TrialState.COMPLETE:
            continue
        if [type(value) for value in trial.values or ()] != [float] or not math.isfinite(trial.values[0]):
            raise ValueError(f"trial {trial.number} has no result")
        for name, distribution in space.items():
            check_value(trial, name, distribution)


def check_value(trial: Trial | FrozenTrial, name: str, source: BaseDistribution) -> None:
    """Raise ValueError, or KeyError without a value, if an option's value is not in the search space."""
    value = trial.params[name]
    if not source._contains(source.to_internal_repr(value)):
        raise ValueError(f"trial {trial.number} has {name}={value}, which is not in the search space")
