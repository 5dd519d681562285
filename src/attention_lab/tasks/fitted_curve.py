"""The curve that a regression of one input has fitted, with the true curve and test samples if known."""

from typing import NamedTuple

import torch
from torch import Tensor

from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs import RegressionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.regression import RegressionData
from attention_lab.viz.plots.panels import Lines, Series

TITLE = "Kernel regression"
"""The title of a picture of the curve."""


class Curve(NamedTuple):
    """A fitted function of one input in the data's units, with its training samples and their mean.

    `spread` is the standard deviation of the targets about the curve.
    """

    x: Tensor
    y: Tensor
    spread: Tensor
    inputs: Tensor
    targets: Tensor
    mean: float


def draw_curve(curve: Curve, codec: RegressionCodec, data: DataModule | None) -> Lines:
    """A panel with the curve, a band that holds about 95% of the targets, and the training samples.

    With `data`, it also shows the test samples and, if known, the true curve.
    """
    band = torch.stack([curve.y - 2 * curve.spread, curve.y + 2 * curve.spread], 1)
    ends = [(low, high) for low, high in band.tolist()]
    x, y = curve.x.numpy(), curve.y.numpy()
    series = [Series("fitted ± 2 standard deviations", x, y, ends, style="band", colour=0)]
    series.append(Series("fitted", x, y, style="plain", colour=0))
    if isinstance(data, RegressionData):
        truth = data.truth(curve.x.double().unsqueeze(1))
        if truth is not None:
            series.append(Series("true curve", x, truth.numpy(), style="truth"))
    series.append(Series("training mean", x[[0, -1]], [curve.mean] * 2, style="dashed"))
    series.append(Series("training samples", curve.inputs.numpy(), curve.targets.numpy(), style="samples"))
    if isinstance(data, RegressionData):
        held_out = data.splits.test[torch.arange(len(data.splits.test))]
        assert isinstance(held_out, RegressionBatch)
        if bool((held_out.index < 0).all()):  # otherwise it is the training set, evaluated leave-one-out
            inputs = codec.restore_inputs(held_out.inputs)[:, 0].numpy()
            targets = codec.restore_targets(held_out.targets)[:, 0].numpy()
            series.append(Series("test samples", inputs, targets, style="gold"))
    return Lines(series, x_label=codec.inputs[0], y_label=codec.target, names="above")
