"""What the regression task shows of its training set."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attention_lab.attention import Constant, Gaussian, Mechanism
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs import RegressionCodec
from attention_lab.errors import LabError
from attention_lab.models import KernelRegression
from attention_lab.sizes import RegressionSizes
from attention_lab.tasks import Regression
from attention_lab.tasks.regression import Reduction, _spread


@pytest.mark.parametrize("features", [1, 2])
def test_one_input_is_an_axis_in_the_units_of_the_data(features: int) -> None:
    codec = RegressionCodec(["a", "b"][:features], "y", [10.0] * (features + 1), [2.0] * (features + 1))
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(features, 1, 3))
    model.memorize(torch.tensor([[1.0], [-1], [0]]).expand(3, features), torch.zeros(3, 1))
    batch = RegressionBatch(
        torch.tensor([[0.5], [-0.5]]).expand(2, features), torch.zeros(2, 1), torch.full([2], -1)
    )
    (observation,) = Regression(model, codec).eval().observe(batch)
    (record,) = observation.records
    if features == 2:
        assert (record.queries, record.keys) == (["(9, 9)", "(11, 11)"], ["(8, 8)", "(10, 10)", "(12, 12)"])
        assert observation.input == "(a, b) = (9, 9), (11, 11)"
        assert record.x is None
    else:
        assert (record.queries, record.keys) == (["9", "11"], ["8", "10", "12"])
        assert observation.input == "a = 9, 11"
        assert record.x is not None and record.kind == "regression"
        assert [side.tolist() for side in record.x] == [[9, 11], [8, 10, 12]]


def test_of_many_inputs_a_few_name_a_sample() -> None:
    codec = RegressionCodec(list("abcde"), "y", [0.0] * 6, [1.0] * 6)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(5, 1, 1))
    model.memorize(torch.zeros(1, 5), torch.zeros(1, 1))
    batch = RegressionBatch(torch.arange(5.0).unsqueeze(0), torch.zeros(1, 1), torch.full([1], -1))
    (observation,) = Regression(model, codec).eval().observe(batch)
    assert observation.input == "(a, b, c, ...) = (0, 1, 2, ...)"


@pytest.mark.parametrize(("inputs", "width"), [(["a"], 1.5), (["a", "b"], 3.0)])
def test_the_width_is_in_the_units_of_a_single_input(inputs: list[str], width: float) -> None:
    codec = RegressionCodec(inputs, "y", [0.0] * 3, [2.0] * 3)
    model = KernelRegression(Mechanism(partial(Gaussian, width=3.0)), RegressionSizes(len(inputs), 1, 3))
    task = Regression(model, codec)
    assert task.width == pytest.approx(width)
    assert task.curve_note == f"bandwidth 1/w = {1 / width:.4g}"


def test_samples_that_are_not_finite_are_shown_without_an_axis() -> None:
    """A checkpoint from others may contain them."""
    codec = RegressionCodec(["a"], "y", [0.0, 0.0], [1.0, 1.0])
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 2))
    model.memorize(torch.tensor([[math.nan], [math.inf]]), torch.zeros(2, 1))
    batch = RegressionBatch(torch.zeros(1, 1), torch.zeros(1, 1), torch.full([1], -1))
    (observation,) = Regression(model, codec).eval().observe(batch)
    assert observation.records[0].x is None


def test_a_curve_is_drawn_with_as_many_samples_as_can_be_seen() -> None:
    codec = RegressionCodec(["x"], "y", [0.0, 0.0], [1.0, 1.0])
    x = torch.linspace(0, 1, 25_000).unsqueeze(1)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, len(x)))
    model.memorize(x, x)
    curve = Regression(model, codec).eval().curve(steps=5)
    assert curve is not None
    assert (len(curve.inputs), curve.inputs[0], curve.inputs[-1]) == (10_000, 0, 1)
    assert torch.equal(curve.inputs, curve.targets)
    assert curve.mean == pytest.approx(0.5)


@pytest.mark.parametrize(("inputs", "targets"), [(2, 1), (1, 2), (2, 2)])
def test_only_one_input_and_one_target_have_a_curve(inputs: int, targets: int) -> None:
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(inputs, targets, 2))
    model.memorize(torch.eye(2)[:, :inputs], torch.eye(2)[:, :targets])
    codec = RegressionCodec(["a", "b"][:inputs], "y", [0.0] * (inputs + 1), [1.0] * (inputs + 1))
    assert Regression(model, codec).eval().curve() is None


def test_the_spread_is_the_deviation_of_the_leave_one_out_errors_in_the_units_of_the_data() -> None:
    codec = RegressionCodec(["x"], "y", mean=[0.0, 10.0], deviation=[1.0, 2.0])
    model = KernelRegression(Mechanism(Constant), RegressionSizes(1, 1, 2))
    model.memorize(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [3.0]]))
    curve = Regression(model, codec).eval().curve(steps=3)
    assert curve is not None
    assert curve.y.tolist() == [13.0] * 3  # the mean, 1.5, is 2 * 1.5 + 10
    assert curve.spread.tolist() == [6.0] * 3  # each sample predicts the other, 3 away


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_loss_is_a_mean_or_a_sum(reduction: Reduction, monkeypatch: pytest.MonkeyPatch) -> None:
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 3), scan=False)
    x, y = torch.tensor([[0.0], [1], [2]]), torch.tensor([[1.0], [0], [4]])
    model.memorize(x, y)
    task = Regression(model, RegressionCodec(["x"], "y", [0.0, 0.0], [1.0, 1.0]), reduction=reduction)
    monkeypatch.setattr(task, "log", lambda *_, **__: None)  # there is no trainer to log to
    loss = task.training_step(RegressionBatch(x, y, torch.arange(3)), 0)
    near, far = math.exp(-1 / 2), math.exp(-4 / 2)
    predicted = [4 * far / (near + far), (1 + 4) / 2, far / (near + far)]
    total = sum((a - b) ** 2 for a, b in zip(predicted, [1, 0, 4], strict=True))
    assert loss is not None
    assert loss.item() == pytest.approx(total if reduction == "sum" else total / 3)


def test_a_sample_is_left_out_only_where_it_is_in_the_training_set() -> None:
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(2, 1, 2))
    model.memorize(torch.tensor([[0.0, 0], [1, 0]]), torch.tensor([[1.0], [2]]))
    task = Regression(model, RegressionCodec(["a", "b"], "y", [0.0] * 3, [1.0] * 3))
    for inputs, target, index, row in (
        ([0.0, 0], 1.0, 0, 0),
        ([1.0, 0], 2.0, 1, 1),
        ([1.0, 5], 2.0, 1, -1),  # another input
        ([1.0, 0], 9.0, 1, -1),  # another target
        ([1.0, 0], 2.0, 5, -1),  # row 5 of a larger training set
        ([0.0, 0], 1.0, -1, -1),  # a test sample
    ):
        batch = RegressionBatch(torch.tensor([inputs]), torch.tensor([[target]]), torch.tensor([index]))
        assert task._memorized(batch).tolist() == [row]


def test_an_unknown_reduction_is_refused() -> None:
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 3))
    with pytest.raises(LabError, match=r"task\.reduction=none: choose mean or sum"):
        Regression(model, RegressionCodec(["x"], "y", [0.0], [1.0]), reduction="none")  # type: ignore[arg-type]


def test_errors_are_exact_for_targets_far_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = RegressionCodec(["x"], "y", mean=[0.0, 1.6e9], deviation=[1.0, 2.0])  # seconds of our time
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 2))
    model.memorize(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.5], [0.5]]))
    task = Regression(model, codec)
    logged: dict[str, object] = {}
    monkeypatch.setattr(task, "log", lambda name, value, **_: logged.update({name: value}))
    task.test_step(RegressionBatch(torch.tensor([[0.0]]), torch.tensor([[0.75]]), torch.tensor([-1])), 0)
    assert task.errors["test_mse"].compute().item() == pytest.approx(0.25)  # (2 * 0.25)^2
    task.on_test_epoch_end()
    assert float(logged["train/loo_mse"]) == pytest.approx(0)  # type: ignore[arg-type]


def test_the_sample_is_five_points_from_the_whole_range_with_four_digits() -> None:
    x = torch.linspace(0, 8, 9).unsqueeze(1)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 9), scan=False)
    model.memorize(x, x / 3)
    batch = RegressionBatch(x.flip(0), x.flip(0) / 3, torch.arange(9).flip(0))
    (sample,) = Regression(model, RegressionCodec(["x"], "y", [0.0, 0.0], [1.0, 1.0])).eval().observe(batch)
    assert sample.input == "x = 0, 2, 4, 6, 8"
    assert sample.expected == "y = 0, 0.6667, 1.333, 2, 2.667"
    written = sample.output.removeprefix("y = ").split(", ")
    assert len(written) == 5 and all(len(number.strip("-0.")) <= 5 for number in written)


class _NoFloat64OnDevice(TorchDispatchMode):
    """Fails where a result is in float64 and not on the CPU: Apple's GPU has none."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "cpu":
            assert result.dtype != torch.float64, func
        return result


def test_samples_are_chosen_without_float64_on_the_device() -> None:
    with _NoFloat64OnDevice():
        assert _spread(torch.arange(1000, device="meta")).shape == (100,)
    assert _spread(torch.arange(1000), 4).tolist() == [0, 333, 666, 999]
