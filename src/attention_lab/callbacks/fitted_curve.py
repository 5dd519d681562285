"""Log the fitted curve and the samples of a regression with one input."""

import pytorch_lightning as pl

from attention_lab.loggers import run_loggers
from attention_lab.tasks import Regression
from attention_lab.tasks.fitted_curve import TITLE
from attention_lab.viz.plots import draw_panels


class FittedCurve(pl.Callback):
    """Log the fitted curve and the training samples to the run's loggers, if the data has one input.

    The curve is drawn at the first validation, whenever the number of steps has quadrupled since the last
    picture, and at the end, because drawing takes as long as several steps of a small regression.
    """

    def __init__(self) -> None:
        self.logged = 0  # the global step of the last picture

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve if it is due, but not during the sanity check."""
        if not trainer.sanity_checking and trainer.global_step >= 4 * self.logged:
            self._log(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the last curve."""
        if trainer.global_step > self.logged:
            self._log(trainer, pl_module)

    def _log(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve on the writing process."""
        loggers = run_loggers(trainer)
        if not loggers or not isinstance(pl_module, Regression):
            return
        panel = pl_module.curve_panel(trainer.datamodule)  # type: ignore[attr-defined]
        if panel is not None:
            picture = draw_panels([panel], title=TITLE, note=pl_module.curve_note, thumbnail=True)
            for logger in loggers:
                logger.log_picture("fit", picture, trainer.global_step)
            self.logged = trainer.global_step
