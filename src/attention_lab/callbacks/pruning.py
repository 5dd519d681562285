"""A run that is a trial of a search: it tells how it does, and stops where its outlook is poor."""

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytorch_lightning as pl

from attention_lab.errors import LabError, PrunedError

if TYPE_CHECKING:
    from optuna.study import Study


class Pruning(pl.Callback):
    """After each validation, report the monitored metric to an Optuna study, and stop if its pruner says so.

    The step under which a value is reported is the number of validations so far, which is what runs with
    different batches have in common. Of several processes the first reports, and all stop.

    Args:
        monitor: the metric.
        trial: the number of the trial that this run is; None: it is none.
        study: opens the study, whose pruner decides.
    """

    def __init__(self, monitor: str | None, trial: int | None, study: "Callable[[], Study]") -> None:
        self.monitor, self.trial = monitor, trial
        self.open_study = study
        self.study: Study | None = None
        self.validations = 0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report, and stop if there is reason to.

        Raises:
            LabError: there is no such metric.
            PrunedError: the run stops here.
        """
        if self.trial is None or self.monitor is None or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if self.monitor not in trainer.callback_metrics:
            known = ", ".join(sorted(trainer.callback_metrics))
            raise LabError(f"monitor.metric={self.monitor} is not measured: choose from {known}")
        value = float(trainer.callback_metrics[self.monitor])
        self.validations += 1
        prune = self._prune(value, self.trial) if trainer.is_global_zero else False
        if trainer.strategy.broadcast(prune):
            raise PrunedError(f"at validation {self.validations}, {self.monitor} {value:.4g}")

    def _prune(self, value: float, number: int) -> bool:
        """Whether to stop at this value. One that is no number will not become one."""
        from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            study = self.study = self.study or self.open_study()
            storage = study._storage
            trial = storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
            try:
                storage.set_trial_intermediate_value(trial, self.validations, value)
            except UpdateFinishedTrialError:
                raise LabError(
                    f"trial {number} was silent for too long and runs again: set a longer sweep.heartbeat"
                ) from None
            return math.isnan(value) or study.pruner.prune(study, storage.get_trial(trial))
