"""Check the monitored metric before training, rather than after its first epoch."""

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
        measured = [name for name in trainer.callback_metrics if name.startswith(PREFIX)]
        if self.metric.startswith(PREFIX) and self.metric not in measured:
            raise LabError(
                f"monitor.metric={self.metric}: there is no such metric; choose {', '.join(measured)}"
            )
