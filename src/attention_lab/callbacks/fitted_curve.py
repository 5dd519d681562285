"""At every validation: the curve that a regression of one input has fitted, with its samples."""

from pathlib import Path

import pytorch_lightning as pl
from PIL.Image import Image

from attention_lab.callbacks.tensorboard import add_picture, run_writer
from attention_lab.tasks import Regression
from attention_lab.viz import draw_curve, to_png
from attention_lab.writing import write_atomically


class FittedCurve(pl.Callback):
    """Log the fitted curve and the training samples to TensorBoard, for data of one input."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the curve; on the writing process only, and not before training has begun."""
        writer = run_writer(trainer)
        if trainer.sanity_checking or writer is None or not isinstance(pl_module, Regression):
            return
        picture = curve_picture(pl_module)
        if picture is not None:
            add_picture(writer, "fit", picture, trainer.global_step)


def curve_picture(task: Regression) -> Image | None:
    """The fitted curve of a task with one input, else None."""
    curve = task.curve()
    if curve is None:
        return None
    return draw_curve(
        {
            "fitted": (curve.x.numpy(), curve.y.numpy()),
            "mean pooling, no query": (curve.x[[0, -1]].numpy(), [curve.mean] * 2),
        },
        points={"training samples": (curve.inputs.numpy(), curve.targets.numpy())},
        title="Kernel regression" if task.width is None else f"Kernel regression, width {task.width:.4g}",
        x_label=task.codec.inputs[0],
        y_label=task.codec.target,
    )


def save_curve(task: Regression, folder: Path) -> Path | None:
    """Write the fitted curve to `folder` as a PNG file, if the data has one input."""
    picture = curve_picture(task)
    if picture is None:
        return None
    path = folder / "fit.png"
    write_atomically(path, to_png(picture))
    return path
