"""Report the progress of a search's trial, and stop the trial if it is pruned."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytorch_lightning as pl

from attention_lab.callbacks.monitored_metric import check_measured
from attention_lab.errors import LabError, PrunedError

if TYPE_CHECKING:
    from optuna.trial import Trial


class Pruning(pl.Callback):
    """After each validation, report the monitored metric to an Optuna study; stop if its pruner says so.

    The number of validations so far serves as the step, since it is comparable between runs with different
    batch sizes. With several processes, the first one reports and all stop.

    Args:
        monitor: the metric.
        number: the number of this run's trial; None if it is not a trial.
        trial: a function that opens the trial with a given number; its pruner decides.
    """

    def __init__(self, monitor: str | None, number: int | None, trial: "Callable[[int], Trial]") -> None:
        self.monitor, self.number = monitor, number
        self.open_trial = trial
        self.trial: Trial | None = None
        self.validations = 0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report, and stop if the trial is pruned.

        Raises:
            LabError: the monitored metric is not measured, or the study has given up on this trial.
            PrunedError: the trial is pruned.
        """
        number, fitting = self.number, trainer.state.fn == "fit" and not trainer.sanity_checking
        if number is None or self.monitor is None or not fitting:
            return
        check_measured(self.monitor, trainer.callback_metrics)
        value = float(trainer.callback_metrics[self.monitor])
        self.validations += 1
        prune = self._prune(value, number) if trainer.is_global_zero else False
        if trainer.strategy.broadcast(prune):
            raise PrunedError(f"at validation {self.validations}, {self.monitor} {value:.4g}")

    def _prune(self, value: float, number: int) -> bool:
        """Whether to stop at this value; always true for NaN, from which training does not recover.

        While the study's database cannot be reached, no other value stops the run.
        """
        from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError

        self.trial = self.trial or self.open_trial(number)
        try:
            self.trial.report(value, self.validations)
            return math.isnan(value) or self.trial.should_prune()
        except StorageInternalError:  # as while a server restarts; the trial's end needs it again
            return math.isnan(value)
        except UpdateFinishedTrialError:
            raise LabError(
                f"trial {number} sent no heartbeat for so long that the search has started it again: "
                "set a longer sweep.heartbeat"
            ) from None
