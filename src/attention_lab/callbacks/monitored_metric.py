"""Check that the monitored metric is measured, if possible before training."""

from collections.abc import Collection, Iterable

import pytorch_lightning as pl

from attention_lab.errors import LabError

PREFIX = "validation/"


class MonitoredMetric(pl.Callback):
    """Validates on one batch before training, to see whether the monitored metric is measured.

    Metrics of other kinds, such as `train/loss`, are left to Lightning.

    Args:
        metric: the metric, such as `validation/loss`.

    Raises:
        LabError: validation does not measure the metric.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Ask for Lightning's sanity check, which leaves the random state as it is."""
        if stage == "fit" and self.metric.startswith(PREFIX):
            trainer.num_sanity_val_steps = max(trainer.num_sanity_val_steps, 1)

    def on_sanity_check_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raise LabError if the metric is missing."""
        if self.metric.startswith(PREFIX):
            check_measured(self.metric, trainer.callback_metrics)


def check_measured(metric: str, measured: Collection[str]) -> None:
    """Raise LabError if a metric is not among those that were measured."""
    if metric not in measured:
        raise not_measured(metric, measured)


def not_measured(metric: str, measured: Iterable[str]) -> LabError:
    """The error for a monitored metric that is not measured; it lists the metrics of validation."""
    known = ", ".join(name for name in measured if name.startswith(PREFIX))
    if not known:
        return LabError(
            f"monitor.metric={metric} is not measured, because no validation has run: "
            "check trainer.limit_val_batches and trainer.check_val_every_n_epoch"
        )
    return LabError(f"monitor.metric={metric}: there is no such metric; choose {known}")
