"""Check that the monitored metrics are measured, if possible before training."""

from collections.abc import Collection, Iterable, Mapping

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping

from attention_lab.errors import LabError

PREFIX = "validation/"
METRIC = "monitor.metric"


class MonitoredMetrics(pl.Callback):
    """Checks at the first validation that the monitored metrics are measured.

    Lightning's early stopping checks this at the end of each epoch. This would be an error if a limit of
    steps or time ends training before the first validation, so its own check is switched off.

    Metrics of other kinds, such as `train/loss`, are left to Lightning.

    Args:
        monitored: each option that names a metric, with the metric, such as `validation/loss`.
        early: whether to validate on one batch before training, so that an error is found at once.

    Raises:
        LabError: validation does not measure a metric.
    """

    def __init__(self, monitored: Mapping[str, str], early: bool) -> None:
        self.monitored = {option: name for option, name in monitored.items() if name.startswith(PREFIX)}
        self.early = early

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """To be early, ask for Lightning's sanity check, which leaves the random state as it is."""
        if stage == "fit" and self.monitored and self.early:
            trainer.num_sanity_val_steps = max(trainer.num_sanity_val_steps, 1)
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, EarlyStopping) and callback.monitor in self.monitored.values():
                callback.strict = False

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raise LabError if a metric is missing."""
        for option, metric in self.monitored.items():
            check_measured(metric, trainer.callback_metrics, option)


def check_measured(metric: str, measured: Collection[str], option: str = METRIC) -> None:
    """Raise LabError if the metric that an option names is not among those that were measured."""
    if metric not in measured:
        raise not_measured(metric, measured, option)


def not_measured(metric: str, measured: Iterable[str], option: str = METRIC) -> LabError:
    """The error for a monitored metric that is not measured; it lists the metrics of validation."""
    known = ", ".join(name for name in measured if name.startswith(PREFIX))
    if not known:
        return LabError(
            f"{option}={metric} is not measured, because no validation has run: "
            "check trainer.max_steps, trainer.limit_val_batches and trainer.check_val_every_n_epoch"
        )
    return LabError(f"{option}={metric}: there is no such metric; choose {known}")
