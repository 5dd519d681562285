"""Nadaraya-Watson regression: its formula, leaving out, and the optimum of the width."""

import inspect
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch

from attention_lab.attention import (
    Additive,
    Band,
    Boxcar,
    Constant,
    Epanechnikov,
    Gaussian,
    Global,
    Hard,
    Laplacian,
    Mechanism,
    QueryFree,
    Window,
    drawing,
    recording,
)
from attention_lab.attention.fast.gaussian import regression
from attention_lab.attention.normalizers import Softmax
from attention_lab.errors import LabError
from attention_lab.models import KernelRegression, kernel_regression
from attention_lab.sizes import RegressionSizes


def _data(n: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, 1, generator=generator).sort(0).values * 5
    return x, 2 * torch.sin(x) + x**0.8 + 0.5 * torch.randn(n, 1, generator=generator)


def _model(score: type, width: float | None = None, scan: bool = False) -> KernelRegression:
    model = KernelRegression(Mechanism(score), RegressionSizes(1, 1, 40), scan=scan)
    if width is not None:
        model.width.data.fill_(width)
    model.memorize(*_data())
    return model


def _loo(model: KernelRegression) -> float:
    x, y = _data()
    return (model(x, torch.arange(40)) - y).square().mean().item()


def test_each_sample_attends_to_all_others() -> None:
    x, y = _data()
    model = _model(Gaussian, 2.0)
    kernel = torch.exp(-((2 * (x - x.mT)) ** 2) / 2)
    assert torch.allclose(model(x), kernel @ y / kernel.sum(1, keepdim=True), atol=1e-5)
    kernel.fill_diagonal_(0)
    assert torch.allclose(model(x, torch.arange(40)), kernel @ y / kernel.sum(1, keepdim=True), atol=1e-5)


def test_a_constant_kernel_is_average_pooling() -> None:
    x, y = _data()
    model = _model(Constant)
    assert model.width is None
    assert torch.allclose(model(x), y.mean().expand(40, 1), atol=1e-5)


def test_without_a_query_every_prediction_is_one_weighted_mean() -> None:
    x, y = _data()
    model = _model(QueryFree)
    assert model.width is None
    assert torch.allclose(model(x), y.mean().expand(40, 1), atol=1e-5)
    numbers = torch.randn(64)
    model.attention.score.weight.data = numbers  # type: ignore[union-attr]
    kernel = numbers[:40].exp()
    assert torch.allclose(model(x), ((kernel @ y) / kernel.sum()).expand(40, 1), atol=1e-5)
    others = kernel.expand(40, 40) * (1 - torch.eye(40))
    assert torch.allclose(model(x, torch.arange(40)), others @ y / others.sum(1, keepdim=True), atol=1e-5)
    with pytest.raises(LabError, match=r"made for 39 positions, got 40: set scoring\.length=40 or more"):
        _model(partial(QueryFree, length=39))(x)  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"scoring\.length must be at least 1"):
        _model(partial(QueryFree, length=0))  # type: ignore[arg-type]


def test_a_query_that_no_kernel_reaches_is_zero() -> None:
    assert _model(Boxcar, 1.0)(torch.tensor([[1e3]])).item() == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("score", [Gaussian, Laplacian, Epanechnikov, Boxcar])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_the_scan_finds_the_optimum_in_any_unit(score: type, unit: float) -> None:
    x, y = _data()
    model = KernelRegression(Mechanism(score), RegressionSizes(1, 1, 40), scan=True)
    model.memorize(x * unit, y)
    found = (model(x * unit, torch.arange(40)) - y).square().mean().item()
    assert found <= _least_error(score) * 1.02


@cache
def _least_error(score: type) -> float:
    """The smallest leave-one-out error among many widths."""
    return min(_loo(_fixed(score, width)) for width in torch.linspace(0.3, 12, 200).tolist())


def _fixed(score: type, width: float) -> KernelRegression:
    model = KernelRegression(Mechanism(score), RegressionSizes(1, 1, 40))
    with torch.no_grad():
        model.keys.copy_(_data()[0])
        model.values.copy_(_data()[1])
        model.width.fill_(width)
    return model


def test_of_many_samples_some_are_scanned_first_in_large_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_regression, "SAMPLED", 39)
    x, y = _data(400)
    chosen, widths = torch.linspace(0, 399, 39).long(), torch.logspace(-1, 3.5, 200) / (x.max() - x.min())
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 400), scan=True)
    tried = []
    model.register_forward_hook(lambda *_: tried.append(model.width.item()))
    model.memorize(x, y)
    found, count = model.width.item(), len(tried)

    def error(width: float) -> float:
        model.width.data.fill_(width)
        return (model(x[chosen], chosen) - y[chosen]).square().mean().item()

    assert found == pytest.approx(min(widths.tolist(), key=error))
    assert count < len(widths) / 3


def test_a_kernel_without_gradient_is_always_scanned() -> None:
    assert _model(Boxcar, 70.0).width == _model(Boxcar, 70.0, scan=True).width < 70
    assert _model(Gaussian, 70.0).width == 70


@pytest.mark.sampled(4, rest="long")
@pytest.mark.parametrize("tolerance", [None, 1e-6])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_fast_sums_are_what_attention_gives(
    tolerance: float | None, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "CELLS_FROM", 1)
    mechanism = Mechanism(Gaussian, lambda: Softmax(temperature))
    model = KernelRegression(mechanism, RegressionSizes(1, 1, 40), tolerance=tolerance)
    x, y = _data()
    model.memorize(x, y)
    index = torch.arange(40)
    found, width = model(x, index), model.width
    with recording(model):
        slow = model(x, index)
    torch.testing.assert_close(found, slow, atol=3e-6, rtol=0)
    loss, wanted = (((f - y) ** 2).mean() for f in (found, slow))
    gradients = [torch.autograd.grad(value, width)[0] for value in (loss, wanted)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


@pytest.mark.long
def test_many_samples_are_never_held_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "forward", lambda *a: pytest.fail("all pairs"))
    monkeypatch.setattr(Gaussian, "features", lambda *a: pytest.fail("all pairs"))
    n = 30_000  # n x n would be 3.6 GB
    x = torch.linspace(0, 5, n).unsqueeze(1)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, n))
    model.width.data.fill_(100.0)
    model.memorize(x, x.sin())
    error = (model(x, torch.arange(n)) - x.sin()).square().mean()
    error.backward()
    assert error < 1e-6 and model.width.grad.isfinite().all()


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("score", [Laplacian, Epanechnikov, Boxcar, Additive])
@pytest.mark.parametrize("window", [Global, partial(Band, width=9)])
def test_some_queries_at_a_time_give_what_all_do(
    score: type, window: Callable[..., Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    (x, y), index = _data(), torch.arange(40)
    torch.manual_seed(0)
    model = KernelRegression(Mechanism(score, window=window), RegressionSizes(1, 1, 40)).double()
    model.memorize(x.double(), y.double())

    def results() -> list[torch.Tensor]:
        queries = x.double().requires_grad_()
        context = model(queries, index)
        learned = [one for one in model.parameters() if score is not Boxcar]
        gradients = torch.autograd.grad(context.square().sum(), [queries, *learned], allow_unused=True)
        return [context, model(queries), *(one for one in gradients if one is not None)]

    expected = results()
    monkeypatch.setattr(kernel_regression, "MANY", 8 * 40)
    monkeypatch.setattr(kernel_regression, "PART", 7 * 40)
    for found, right in zip(results(), expected, strict=True):
        torch.testing.assert_close(found, right)
    with recording(model) as weights:
        model(x.double()).sum().backward()
    assert weights["attention"].shape == (1, 1, 40, 40)
    with recording(model, queries=-1) as last:  # the last of all queries, not of each part
        model(x.double())
    torch.testing.assert_close(last["attention"], weights["attention"][:, :, -1:])


def test_samples_of_hard_pooling_are_those_of_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts would draw again in the backward pass, and the loss is of what was drawn."""
    monkeypatch.setattr(kernel_regression, "MANY", 1)
    monkeypatch.setattr(kernel_regression, "PART", 7 * 40)
    model = KernelRegression(Mechanism(Laplacian, pooling=Hard), RegressionSizes(1, 1, 40))
    model.memorize(*_data())
    with drawing(model.attention.pooling) as draws:
        model(_data()[0])
    assert len(draws) == 1 and draws[0].log_probability.numel() == 40


def test_weights_of_very_many_pairs_are_not_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_regression, "MANY", 100 * 40)
    monkeypatch.setattr(kernel_regression, "PART", 10 * 40)
    model, x = _model(Laplacian), torch.rand(1000, 1)
    sizes: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        for count in (100, 101):
            sizes.clear()
            model(x[:count])
            assert (max(sizes) >= 100 * 40) == (count == 100)


def test_a_tolerance_without_meaning_is_refused() -> None:
    for tolerance in (0.0, -1.0, 1.0):
        with pytest.raises(LabError, match=r"model\.tolerance"):
            KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 40), tolerance=tolerance)


def test_a_score_in_place_of_a_mechanism_is_refused() -> None:
    build = inspect.unwrap(KernelRegression.__init__)  # without the type checks of the tests
    with pytest.raises(TypeError, match=r"such as Mechanism\(Gaussian\), not the class Gaussian"):
        build(KernelRegression.__new__(KernelRegression), Gaussian, RegressionSizes(1, 1, 2))
