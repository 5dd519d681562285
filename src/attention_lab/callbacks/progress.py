"""Progress on the console: one bar while an epoch runs, one line when it is over."""

import sys
import time
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm


class Progress(TQDMProgressBar):
    """A bar for the training epoch on a terminal, and a line of metrics after each validation anywhere.

    Args:
        refresh_rate: steps between updates of the bar.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate, leave=False)
        self.start = 0.0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def init_train_tqdm(self) -> Tqdm:
        """The training bar; none where the output is no terminal."""
        return super().init_train_tqdm() if sys.stderr.isatty() else Tqdm(disable=True)

    def init_validation_tqdm(self) -> Tqdm:
        """No bar: evaluation is short."""
        return Tqdm(disable=True)

    def init_test_tqdm(self) -> Tqdm:
        """No bar: evaluation is short."""
        return Tqdm(disable=True)

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The metrics on the bar, without the number of the logger's version."""
        return {
            name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"
        }

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the epoch, the time and what the bar shows."""
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn != "fit" or trainer.sanity_checking or not trainer.is_global_zero:
            return
        metrics = {name: float(value) for name, value in self.get_metrics(trainer, pl_module).items()}
        shown = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        epochs = f"/{trainer.max_epochs}" if trainer.max_epochs not in (None, -1) else ""
        line = (
            f"epoch {trainer.current_epoch + 1}{epochs}  {time.perf_counter() - self.start:5.1f} s  {shown}"
        )
        Tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()
