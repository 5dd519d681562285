"""The curve that a regression of one input has fitted, with its samples."""

from pathlib import Path

import pytorch_lightning as pl
from PIL.Image import Image

from attention_lab.callbacks.tensorboard import add_picture, run_writer
from attention_lab.tasks import Regression
from attention_lab.viz import to_png
from attention_lab.viz.panels import Lines, Series
from attention_lab.viz.plots import draw_panels
from attention_lab.writing import write_atomically


class FittedCurve(pl.Callback):
    """Log the fitted curve and the training samples to TensorBoard, for data of one input.

    At the first validation, then whenever training has taken four times as many steps as at the last picture,
    and at the end: drawing takes as long as several steps of a small regression.
    """

    def __init__(self) -> None:
        self.logged = 0  # steps that training had taken at the last picture

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve if it is due; not before training has begun."""
        if not trainer.sanity_checking and trainer.global_step >= 4 * self.logged:
            self._log(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the last curve."""
        if trainer.global_step > self.logged:
            self._log(trainer, pl_module)

    def _log(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve on the writing process."""
        writer = run_writer(trainer)
        if writer is None or not isinstance(pl_module, Regression):
            return
        picture = curve_picture(pl_module)
        if picture is not None:
            add_picture(writer, "fit", picture, trainer.global_step)
            self.logged = trainer.global_step


def curve_picture(task: Regression) -> Image | None:
    """The fitted curve of a task with one input, else None."""
    curve = task.curve()
    if curve is None:
        return None
    ends = curve.x[[0, -1]].numpy()
    panel = Lines(
        [
            Series("fitted", curve.x.numpy(), curve.y.numpy(), style="plain"),
            Series("mean pooling, no query", ends, [curve.mean] * 2, style="dashed"),
            Series("training samples", curve.inputs.numpy(), curve.targets.numpy(), style="samples"),
        ],
        x_label=task.codec.inputs[0],
        y_label=task.codec.target,
        names="above",
    )
    width = "" if task.width is None else f", width {task.width:.4g}"
    return draw_panels([panel], title=f"Kernel regression{width}")


def save_curve(task: Regression, folder: Path) -> Path | None:
    """Write the fitted curve to `folder` as a PNG file, if the data has one input."""
    picture = curve_picture(task)
    if picture is None:
        return None
    path = folder / "fit.png"
    write_atomically(path, to_png(picture))
    return path
