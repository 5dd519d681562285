"""Save the best checkpoint of a training run."""

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor


class BestCheckpoint(ModelCheckpoint):
    """Saves the epoch with the best value of a metric; of several equally good ones, the latest.

    Lightning's class, which takes the same options, keeps the first. On an easy or small validation set,
    that is the first epoch without an error, long before training has converged.
    """

    def check_monitor_top_k(self, trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        """Whether the current value is among the `save_top_k` best, or equal to the worst of them."""
        if super().check_monitor_top_k(trainer, current):
            return True
        if current is None:
            return False
        tied = bool(current == self.best_k_models[self.kth_best_model_path])
        return bool(trainer.strategy.reduce_boolean_decision(tied))  # all processes must agree
