"""Nadaraya-Watson regression: its formula, leaving out, and the optimum of the width."""

import pytest
import torch

from attention_lab.attention import Boxcar, Constant, Epanechnikov, Gaussian, Laplacian, Mechanism
from attention_lab.models import KernelRegression
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


def test_a_query_that_no_kernel_reaches_is_zero() -> None:
    assert _model(Boxcar, 1.0)(torch.tensor([[1e3]])).item() == 0


@pytest.mark.parametrize("score", [Gaussian, Laplacian, Epanechnikov, Boxcar])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_the_scan_finds_the_optimum_in_any_unit(score: type, unit: float) -> None:
    x, y = _data()
    model = KernelRegression(Mechanism(score), RegressionSizes(1, 1, 40), scan=True)
    model.memorize(x * unit, y)
    found = (model(x * unit, torch.arange(40)) - y).square().mean().item()
    fine = [
        _loo(_model_at) for _model_at in (_fixed(score, w) for w in torch.linspace(0.3, 12, 400).tolist())
    ]
    assert found <= min(fine) * 1.02


def _fixed(score: type, width: float) -> KernelRegression:
    model = KernelRegression(Mechanism(score), RegressionSizes(1, 1, 40))
    with torch.no_grad():
        model.keys.copy_(_data()[0])
        model.values.copy_(_data()[1])
        model.width.fill_(width)
    return model


def test_a_kernel_without_gradient_is_always_scanned() -> None:
    assert _model(Boxcar).width.item() != 1.0
    assert _model(Gaussian).width.item() == 1.0
