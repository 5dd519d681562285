"""Regression by attention to the training set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MeanSquaredError

from attention_lab.attention import recording
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs import RegressionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.errors import LabError
from attention_lab.files.run_files import HEATMAPS
from attention_lab.files.writing import write_atomically
from attention_lab.models.kernel_regression import KernelRegression
from attention_lab.tasks.fitted_curve import TITLE, Curve, draw_curve
from attention_lab.tasks.loss_curve import save_losses
from attention_lab.tasks.model_checks import check_regression_model
from attention_lab.tasks.observation import Observation, QueriesAndKeys, make_observation
from attention_lab.tasks.task import Task, at_least_float32
from attention_lab.tensorboard_plugin.event_files import event_folder
from attention_lab.text_tables import ConsoleTable
from attention_lab.viz.plots import plot_file
from attention_lab.viz.plots.panels import Lines

LIMIT = 100
"""Maximum number of rows, and of columns, of weights to show."""
POINTS = 10_000
"""Maximum number of samples plotted with a fitted curve."""
INPUTS = 3
"""Maximum number of inputs by which a sample is named."""
Reduction = Literal["mean", "sum"]
"""How the samples' errors are combined into a loss."""


class Regression(Task):
    """Trains with the leave-one-out squared error, evaluates the mean squared error in the data's units.

    `train/loo_mse` is the error on the training set with each sample predicted from all others.

    Args:
        model: the kernel regression.
        codec: converts numbers to standardised tensors and back.
        reduction: "mean" or "sum" of the squared errors of a batch as the training loss. With a sum, steps at
            a given learning rate grow with the number of samples. Metrics are always means.
        options: see `Task`.
    """

    model: KernelRegression
    codec: RegressionCodec
    headlines = ("test/mse", "train/loo_mse")

    def __init__(
        self,
        model: KernelRegression,
        codec: RegressionCodec,
        *,
        reduction: Reduction = "mean",
        **options: Any,
    ) -> None:
        super().__init__(model, codec, **options)
        if reduction not in get_args(Reduction):
            raise LabError(f"task.reduction={reduction}: choose mean or sum")
        self.reduction = reduction
        # A key of a ModuleDict must not be the name of one of its methods, such as `train`.
        self.errors = nn.ModuleDict({f"{split}_mse": MeanSquaredError() for split in ("validation", "test")})

    @property
    def width(self) -> float | None:
        """The kernel's (mean) width: in the data's units for one input, otherwise standardised."""
        if self.model.width is None:
            return None
        width = float(self.model.width.detach().mean())
        return width / self.codec.deviation[0] if len(self.codec.inputs) == 1 else width

    def setup(self, stage: str) -> None:
        """Check the model, and give it its training set before the optimiser is created."""
        check_regression_model(self.model)
        if stage == "fit":
            training = self.trainer.datamodule.training_set()  # type: ignore[attr-defined]
            self.model.memorize(training.inputs, training.targets)

    def training_step(self, batch: RegressionBatch, batch_idx: int) -> Tensor | None:
        """Mean or sum of the squared leave-one-out errors, standardised if the data is."""
        predicted = at_least_float32(self.model(batch.inputs, batch.index))
        loss = F.mse_loss(predicted, at_least_float32(batch.targets), reduction=self.reduction)
        self.log_training_loss(loss, len(batch.inputs))
        # A constant kernel has no parameters, so there is no gradient.
        return loss if loss.requires_grad else None

    def validation_step(self, batch: RegressionBatch, batch_idx: int) -> None:
        """Mean squared error."""
        predicted = self.model(batch.inputs, self._memorized(batch))
        loss = F.mse_loss(at_least_float32(predicted), at_least_float32(batch.targets))
        self.log_mean("validation/loss", loss, len(batch.inputs))
        self._update("validation", batch, predicted)

    def test_step(self, batch: RegressionBatch, batch_idx: int) -> None:
        """Mean squared error."""
        self._update("test", batch, self.model(batch.inputs, self._memorized(batch)))

    def on_train_epoch_end(self) -> None:
        """Log the leave-one-out error after the epoch, because one step may try many widths."""
        self._log_leave_one_out()

    def on_test_epoch_end(self) -> None:
        """Log the leave-one-out error of the training set with the tested weights."""
        self._log_leave_one_out()

    @torch.no_grad()
    def _log_leave_one_out(self) -> None:
        index = torch.arange(len(self.model.keys), device=self.device)
        predicted, targets = self._in_units(self.model(self.model.keys, index), self.model.values)
        error = F.mse_loss(predicted, targets)
        self.log("train/loo_mse", error, prog_bar=True)
        if self.width is not None:
            self.log("train/width", self.width)

    @torch.no_grad()
    def answer(self, batch: RegressionBatch) -> list[str]:
        """The prediction for each example, in the target's units."""
        return [self.codec.decode(row) for row in self.model(batch.inputs, batch.index).cpu()]

    @torch.no_grad()
    def values(self, batch: RegressionBatch) -> Tensor:
        """The prediction for each example [B] in float64, in the target's units."""
        return self.codec.restore_targets(self.model(batch.inputs, batch.index).double())[:, 0]

    @torch.no_grad()
    def observe(self, batch: RegressionBatch) -> list[Observation]:
        """One observation for the batch: its rows over the training set, both sorted by input."""
        rows = _spread(batch.inputs[:, 0].argsort())
        columns = _spread(self.model.keys[:, 0].argsort())
        with recording(self.model) as weights:
            predicted = self.model(batch.inputs[rows], self._memorized(batch)[rows])
        shown = _spread(torch.arange(len(rows), device=rows.device), 5)
        queries_and_keys = QueriesAndKeys(
            queries=self._labels(batch.inputs[rows]),
            keys=self._labels(self.model.keys[columns]),
            x=self._positions(batch.inputs[rows], self.model.keys[columns]),
        )
        inputs = ", ".join(self._labels(batch.inputs[rows[shown]]))
        drawn = make_observation(
            weights,
            0,
            dict.fromkeys(weights, queries_and_keys),
            columns=columns,
            input=f"{_listed(self.codec.inputs)} = {inputs}",
            output=self._listed(predicted[shown]),
            expected="",  # in pictures it would mark the output as wrong, which a number never quite is
        )
        return [drawn._replace(expected=self._listed(batch.targets[rows[shown]]))]

    @torch.no_grad()
    def curve(self, steps: int = 400) -> Curve | None:
        """The fitted function over the range of a single input; None for several inputs."""
        keys, values = self.model.keys, self.model.values
        if keys.shape[1] != 1 or values.shape[1] != 1:
            return None
        grid = torch.linspace(float(keys.min()), float(keys.max()), steps, device=keys.device)
        x = grid.to(keys.dtype).unsqueeze(-1)
        inputs, targets = self.codec.restore_inputs, self.codec.restore_targets
        drawn = _spread(torch.arange(len(keys), device=keys.device), POINTS)
        spread = targets(self._variance(x).sqrt()) - targets(torch.zeros_like(x))
        pairs = (inputs(x), targets(self.model(x)), spread, inputs(keys[drawn]), targets(values[drawn]))
        mean = float(targets(values.cpu().double().mean(0)))
        x, y, spread, drawn_x, drawn_y = (part.squeeze(-1).float().cpu() for part in pairs)
        return Curve(x, y, spread, drawn_x, drawn_y, mean)

    def _variance(self, x: Tensor) -> Tensor:
        """Variance of the targets about the curve: squared leave-one-out errors, smoothed by the model."""
        values = self.model.values.clone()
        errors = self.model(self.model.keys, torch.arange(len(values), device=values.device)) - values
        try:
            self.model.values.copy_(errors.square())
            variance: Tensor = self.model(x).clamp_min(0)
        finally:
            self.model.values.copy_(values)
        return variance

    def curve_panel(self, data: DataModule | None) -> Lines | None:
        """The fitted curve with its samples, and the true curve if known; None for several inputs."""
        curve = self.curve()
        return None if curve is None else draw_curve(curve, self.codec, data)

    @property
    def curve_note(self) -> str:
        """The bandwidth in the units of the horizontal axis, for below the title of the fitted curve."""
        return f"bandwidth 1/w = {1 / self.width:.4g}" if self.width else ""

    def write_artifacts(self, folder: Path, data: DataModule, pictures: int) -> list[ConsoleTable]:
        """Write heatmaps, the fitted curve (`attention/fit`) and the curve of the loss (`attention/loss`)."""
        tables = super().write_artifacts(folder, data, pictures)
        if pictures:
            kind, drawn = self.pictures_format, folder / HEATMAPS
            panel = self.curve_panel(data)
            if panel is not None:
                picture = plot_file([panel], kind, title=TITLE, note=self.curve_note)
                write_atomically(drawn / f"fit.{kind}", picture)
            save_losses(event_folder(folder), drawn, f"{self.reduction} of squared errors", kind)
        return tables

    def _memorized(self, batch: RegressionBatch) -> Tensor:
        """Each sample's row in the training set that the model has memorised, -1 for other samples."""
        index = batch.index.clamp(0, len(self.model.keys) - 1)
        same = (self.model.keys[index] == batch.inputs).all(-1) & (
            self.model.values[index] == batch.targets
        ).all(-1)
        return index.where(same & (batch.index == index), -1)

    def _labels(self, inputs: Tensor) -> list[str]:
        """The inputs of each row, in the data's units."""
        rows = self.codec.restore_inputs(inputs.cpu()).tolist()
        return [_listed([f"{value:.3g}" for value in row]) for row in rows]

    def _listed(self, targets: Tensor) -> str:
        """The name of the target and a few of its values, with four digits or as whole numbers."""
        values = self.codec.restore_targets(targets.cpu())[:, 0].tolist()
        texts = (f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}" for value in values)
        return f"{self.codec.target} = {', '.join(texts)}"

    def _positions(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor] | None:
        """The input of the rows and columns in the data's units; None for several inputs."""
        if keys.shape[1] != 1:
            return None
        restore = self.codec.restore_inputs
        return restore(queries.cpu())[:, 0], restore(keys.cpu())[:, 0]

    def _in_units(self, predicted: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and targets in the units of the data, to be compared; see `scale_targets`."""
        scale = self.codec.scale_targets
        return scale(at_least_float32(predicted)), scale(at_least_float32(targets))

    def _update(self, split: str, batch: RegressionBatch, predicted: Tensor) -> None:
        metric = self.errors[f"{split}_mse"]
        metric.update(*self._in_units(predicted, batch.targets))  # type: ignore[operator]
        self.log(f"{split}/mse", metric, on_step=False, on_epoch=True, prog_bar=True)  # type: ignore[arg-type]


def _listed(texts: Sequence[str]) -> str:
    """A single text as it is; of several, the first few in parentheses."""
    if len(texts) == 1:
        return texts[0]
    more = ["..."] if len(texts) > INPUTS else []
    return f"({', '.join([*texts[:INPUTS], *more])})"


def _spread(order: Tensor, limit: int = LIMIT) -> Tensor:
    """At most `limit` of the entries, evenly spaced."""
    if len(order) <= limit:
        return order
    # On the CPU: some other devices have no float64.
    indices = torch.linspace(0, len(order) - 1, limit, dtype=torch.float64).long()
    return order[indices.to(order.device)]
