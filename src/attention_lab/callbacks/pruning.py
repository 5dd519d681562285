"""A run that is a trial of a search: it tells how it does, and stops where its outlook is poor."""

import math
import warnings
from typing import TYPE_CHECKING

import pytorch_lightning as pl

from attention_lab.errors import LabError, PrunedError

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.study import Study

PATIENCE = 60
"""Seconds to wait for a database that another process writes."""


class Pruning(pl.Callback):
    """After each validation, report the monitored metric to an Optuna study, and stop if its pruner says so.

    The step under which a value is reported is the number of validations so far, which is what runs with
    different batches have in common. Of several processes the first reports, and all stop.

    Args:
        monitor: the metric.
        storage: the URL of the study's storage.
        study: its name.
        trial: the number of the trial that this run is; None: it is none.
        pruner: decides.
    """

    def __init__(
        self, monitor: str | None, storage: str | None, study: str, trial: int | None, pruner: "BasePruner"
    ) -> None:
        self.monitor, self.storage, self.study, self.trial = monitor, storage, study, trial
        self.pruner = pruner
        self.validations = 0
        self.opened: tuple[Study, int] | None = None

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
        prune = self._prune(value) if trainer.is_global_zero else False
        if trainer.strategy.broadcast(prune):
            raise PrunedError(f"at validation {self.validations}, {self.monitor} {value:.4g}")

    def _prune(self, value: float) -> bool:
        """Whether to stop at this value. One that is no number will not become one."""
        from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            study, trial = self._open()
            try:
                study._storage.set_trial_intermediate_value(trial, self.validations, value)
            except UpdateFinishedTrialError:
                raise LabError(
                    f"trial {self.trial} was silent for too long and runs again: set a longer sweep.heartbeat"
                ) from None
            return math.isnan(value) or self.pruner.prune(study, study._storage.get_trial(trial))

    def _open(self) -> tuple["Study", int]:
        """The study, and the storage's own number of the trial."""
        if self.opened is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
            assert self.storage is not None
            wait = {"connect_args": {"timeout": PATIENCE}} if self.storage.startswith("sqlite") else None
            storage = optuna.storages.RDBStorage(self.storage, engine_kwargs=wait)
            study = optuna.load_study(study_name=self.study, storage=storage, pruner=self.pruner)
            found = next(one for one in study.get_trials(deepcopy=False) if one.number == self.trial)
            self.opened = study, found._trial_id
        return self.opened
