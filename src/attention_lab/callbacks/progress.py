"""Progress on the console: a bar during an epoch, a line after it."""

import sys
import time
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.callbacks.progress.tqdm_progress import Tqdm


class Progress(TQDMProgressBar):
    """A bar for the training epoch (on a terminal only), and a line of metrics after each validation.

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
        """The training bar; disabled unless the output is a terminal."""
        return super().init_train_tqdm() if sys.stderr.isatty() else Tqdm(disable=True)

    def init_validation_tqdm(self) -> Tqdm:
        """No bar: evaluation is short."""
        return Tqdm(disable=True)

    def init_test_tqdm(self) -> Tqdm:
        """No bar: evaluation is short."""
        return Tqdm(disable=True)

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The metrics on the bar, without the logger's version number."""
        return {
            name: value for name, value in super().get_metrics(trainer, pl_module).items() if name != "v_num"
        }

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the epoch, the time and the metrics on the bar."""
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
