"""Kernel regression of data that breaks naive code: always finite, and as documented."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from attention_lab.attention.fast.gaussian import regression
from attention_lab.estimators import KernelRegression
from attention_lab.estimators.smoothing import smooth

KERNELS = ["gaussian", "laplacian", "epanechnikov", "tricube", "boxcar"]
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def _data(draw: st.DrawFn) -> Data:
    """Inputs with duplicates, constant columns, offsets and isolated points; targets; weights, some of 0."""
    n, inputs = draw(st.integers(3, 30)), draw(st.sampled_from([1, 1, 2]))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    x = generator.standard_normal((n, inputs)).round(draw(st.sampled_from([0, 1, 12])))
    if draw(st.booleans()):
        x[0] = draw(st.sampled_from([50.0, 1e6]))
    if draw(st.booleans()):
        x[:, -1] = 3.0
    x = x * draw(st.sampled_from([1e-6, 1.0, 1e6])) + draw(st.sampled_from([0.0, 1e8]))
    y = generator.standard_normal(n) + draw(st.sampled_from([0.0, 1e8]))
    weights = generator.integers(0, 3, n) * draw(st.sampled_from([1.0, 0.3]))
    weights[:2] = 1.0
    return x, y, weights


def _fit(model: KernelRegression, data: Data) -> KernelRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data)


@pytest.mark.long
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=5)
@given(_data(), st.sampled_from(["loo", 1e-3, 1.0, 1e4]), st.sampled_from([0, 1]))
def test_all_is_finite_and_means_are_between_the_targets(
    kernel: str, fast: bool, data: Data, bandwidth: float | str, degree: int
) -> None:
    x, y, weights = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smooth, "SUMS_FROM", 0 if fast else 10**9)
        patch.setattr(regression, "CELLS_FROM", 1 if fast else 10**9)
        model = _fit(KernelRegression(kernel, bandwidth, degree), data)
        queries = np.concatenate([x, x + 0.3, x[:1] * 2 - 1e7])
        mean, error = model.predict(queries, return_std=True)
    assert np.isfinite(mean).all() and not np.isnan(error).any() and (error >= 0).all()
    assert np.isfinite(model.loo_predictions_).all() and model.loo_error_ >= 0
    assert (model.bandwidth_ > 0).all()
    if degree == 0:
        kept = y[weights > 0]
        slack = 1e-6 * np.abs(kept - kept.mean()).max() + 1e-15 * np.abs(kept).max()
        for found in (mean, model.loo_predictions_):
            assert (found >= kept.min() - slack).all() and (found <= kept.max() + slack).all()


def test_the_error_far_from_a_line_through_two_points_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "SUMS_FROM", 0)
    monkeypatch.setattr(regression, "CELLS_FROM", 1)
    x, y = np.array([[0.0], [1e-6]]), np.array([-1.3, 0.9])
    model = KernelRegression(bandwidth=1e-6, degree=1).fit(x, y)
    _, error = model.predict(np.array([[-1e7]]), return_std=True)
    assert np.isinf(error).all()  # two points determine the line and leave nothing to estimate the noise from


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=10)
@given(_data(), st.sampled_from([0.2, 1.0]), st.sampled_from([0, 1]))
def test_a_sample_of_weight_zero_is_as_good_as_absent(
    kernel: str, data: Data, bandwidth: float, degree: int
) -> None:
    x, y, weights = data
    kept = weights > 0
    full = _fit(KernelRegression(kernel, bandwidth, degree), data)
    part = _fit(KernelRegression(kernel, bandwidth, degree), (x[kept], y[kept], weights[kept]))
    assert full.predict(x) == pytest.approx(part.predict(x))
    assert full.loo_predictions_[kept] == pytest.approx(part.loo_predictions_)
    assert full.loo_predictions_[~kept] == pytest.approx(part.predict(x[~kept]) if (~kept).any() else [])


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_offset_costs_no_digits(kernel: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smooth, "SUMS_FROM", 0 if fast else 10**9)
    monkeypatch.setattr(regression, "CELLS_FROM", 1 if fast else 10**9)
    generator = np.random.default_rng(0)
    x = (generator.random((300, 1)) * 2**20).round() / 2**20  # held exactly at either offset
    y = np.sin(9 * x[:, 0])
    for degree in (0, 1):
        near = KernelRegression(kernel, 0.1234567, degree).fit(x, y)
        far = KernelRegression(kernel, 0.1234567, degree).fit(x + 1e8, y + 1e8)
        assert far.predict(x + 1e8) - 1e8 == pytest.approx(near.predict(x), abs=2e-6)
        assert far.loo_error_ == pytest.approx(near.loo_error_, rel=1e-5)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("degree", [0, 1])
def test_out_of_reach_the_nearest_samples_count(
    kernel: str, degree: int, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smooth, "SUMS_FROM", 0 if fast else 10**9)
    x, y = np.array([[0.0], [1.0], [1.0], [4.0]]), np.array([0.0, 1.0, 4.0, 8.0])
    model = KernelRegression(kernel, 1e-3, degree, tolerance=None).fit(x, y, [1.0, 1.0, 2.0, 1.0])
    # 1.0 is nearest to 1.4, both 1.0 and 4.0 to 2.5, which lies in the middle of a line; 4.0 to 99
    middle = (3 + 8) / 2 if degree else (1 + 4 + 4 + 8) / 4
    assert model.predict([[1.4], [2.5], [99.0]]) == pytest.approx([3.0, middle, 8.0])
    # of those left out, the nearest others: of 1.0 the other at the same place, or one of its two copies
    assert model.loo_predictions_ == pytest.approx([3.0, 4.0, 2.5, 3.0])
