"""The base class of all tasks: optimiser, schedule, and checkpoints from which a model can be rebuilt."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytorch_lightning as pl
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.utilities import move_data_to_device
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics import Metric

from attention_lab.attention.evaluation_mode import evaluation_mode
from attention_lab.data.reading.codecs import Codec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.distributed import process_count
from attention_lab.errors import LabError
from attention_lab.files.run_files import HEATMAPS, RECIPE
from attention_lab.tasks.losses.pooling import check_pooling
from attention_lab.tasks.observation import Observation
from attention_lab.tasks.pictures import save_pictures
from attention_lab.tasks.pixel_rows import console_lines, is_picture
from attention_lab.text_tables import ConsoleTable
from attention_lab.viz import Format

BatchT = TypeVar("BatchT")
SplitName = Literal["validation", "test"]


class Task(pl.LightningModule, ABC):
    """A model, its training loss and its evaluation metrics.

    Args:
        model: the network.
        codec: converts raw text to tensors and back.
        optimizer: makes the optimiser from the parameters; needed only for training.
        schedule: makes the learning-rate schedule from the optimiser and the number of steps.
        recipe: plain values stored in every checkpoint, from which the model and preprocessing are rebuilt.

    Raises:
        LabError: an attention has a pooling that this model cannot learn with.
    """

    pictures_format: Format = "png"
    """The format of the pictures that `write_artifacts` writes."""
    headlines: tuple[str, ...] = ()
    """The test metrics by which runs are compared."""
    training_loss: Tensor | None = None
    """The loss of the last training step, on its device."""

    def __init__(
        self,
        model: nn.Module,
        codec: Codec,
        *,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
        schedule: Callable[[Optimizer, int], LRScheduler] | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if type(self).training_step.__module__.startswith("attention_lab."):  # others may have the loss
            check_pooling(model)
        self.model = model
        self.codec = codec
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.recipe = dict(recipe or {})

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimiser and its schedule, updated every step; None for a model without parameters."""
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        if not parameters or self.make_optimizer is None:
            return None
        optimizer = self.make_optimizer(parameters)
        if self.trainer.precision == "bf16-mixed":
            # Lightning refuses to clip if a fused optimiser may scale gradients; in bfloat16 none does.
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        if self.make_schedule is None:
            return optimizer
        steps = self.trainer.estimated_stepping_batches
        if math.isinf(steps):
            raise LabError(
                "a learning-rate schedule needs an end: set trainer.max_epochs or trainer.max_steps"
            )
        schedule = self.make_schedule(optimizer, int(steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute the gradients. Raises LabError if there are none, as a user-defined model may have."""
        if not loss.requires_grad:
            raise LabError(
                f"{type(self.model).__name__} cannot be trained: its loss depends on none of its parameters, "
                "or only on detached or frozen ones"
            )
        super().backward(loss, *args, **kwargs)

    def log_training_loss(self, loss: Tensor, examples: int) -> None:
        """Log the loss of a training step as `train/loss`, and keep it for the mean over the epoch."""
        self.training_loss = loss.detach()
        self.log("train/loss", self.training_loss, prog_bar=True, batch_size=examples)

    def log_mean(self, name: str, value: Tensor, count: int) -> None:
        """Log the epoch's mean over all processes; the batch has `count` values with the mean `value`."""
        # Lightning divides the total by the number of processes and drops the remainder: here it leaves none.
        self.log(name, value, batch_size=count * process_count(), sync_dist=True)

    def on_validation_start(self) -> None:
        """Keep the sums of metrics out of half precision; see `_count_exactly`."""
        self._count_exactly()

    def on_test_start(self) -> None:
        """Keep the sums of metrics out of half precision; see `_count_exactly`."""
        self._count_exactly()

    def _count_exactly(self) -> None:
        """Let metrics count in float32 at least: the trainer converts them together with the model."""
        for metric in self.modules():
            if isinstance(metric, Metric):
                metric.to(torch.promote_types(metric.dtype, torch.float32))  # integers stay integers

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the recipe, as plain values that load with `weights_only=True`."""
        checkpoint[RECIPE] = self.recipe

    @abstractmethod
    def observe(self, batch: Any) -> list[Observation]:
        """The examples of a batch with all attention weights; called in evaluation mode."""

    @abstractmethod
    def answer(self, batch: Any) -> list[str]:
        """The model's output for each example, as text."""

    def observe_probe(self, data: DataModule, examples: int) -> list[Observation]:
        """Observations of the data's probe batch, in evaluation mode."""
        with evaluation_mode(self):
            return self.observe(self.prepared(data.probe(examples)))

    def prepared(self, batch: BatchT) -> BatchT:
        """A batch on the device and in the precision of the model, as the trainer passes it to a step."""
        moved: BatchT = apply_to_collection(
            move_data_to_device(batch, self.device),
            Tensor,
            lambda values: values.to(self.dtype) if values.is_floating_point() else values,
        )
        return moved

    def write_artifacts(self, folder: Path, data: DataModule, pictures: int) -> list[ConsoleTable]:
        """Write the files of a test other than metrics: for every task, heatmaps of the probe batch.

        Args:
            folder: the run's folder; its logs are closed.
            data: the data of the test.
            pictures: number of examples to draw heatmaps of; 0 for no pictures.

        Returns:
            Tables for the console.
        """
        observations = self.observe_probe(data, pictures) if pictures else []
        save_pictures(observations, folder / HEATMAPS, self.pictures_format)
        rows = [
            (console_lines(one.input) if is_picture(one.input) else one.input, one.output, one.expected)
            for one in observations
        ]
        return [ConsoleTable("Samples", ("input", "output", "expected"), rows)] if rows else []


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision as float32, in which the sum over a batch neither rounds nor overflows."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def check_label_smoothing(share: float) -> None:
    """Raise LabError if a label smoothing is outside [0, 1)."""
    if not 0 <= share < 1:
        raise LabError(f"task.label_smoothing must be in [0, 1), got {share}")
