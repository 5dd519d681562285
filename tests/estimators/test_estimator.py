"""Kernel regression as a scikit-learn estimator: its interface, options, weights and errors."""

import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from attention_lab.estimators import KernelRegression

KERNELS = ["gaussian", "laplacian", "epanechnikov", "tricube", "boxcar"]


def _data(n: int = 80, inputs: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.random((n, inputs)) * 5
    return x, np.sin(x).sum(1) * 2 + 0.3 * generator.standard_normal(n)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some checks have noise alone
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # the array API is off
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"bandwidth": 0.5},
        {"kernel": "tricube", "bandwidth": 1.0, "degree": 1},
        pytest.param({"degree": 1}, marks=pytest.mark.slow),
        pytest.param({"kernel": "epanechnikov"}, marks=pytest.mark.slow),
        pytest.param({"kernel": "boxcar", "degree": 1}, marks=pytest.mark.slow),
        pytest.param({"kernel": "laplacian", "degree": 1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_check_of_scikit_learn_passes(options: dict[str, Any]) -> None:
    results = check_estimator(KernelRegression(**options), on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "skipped"} <= {
        "check_array_api_input"
    }
    assert "check_sample_weight_equivalence_on_dense_data" in {
        result["check_name"] for result in results if result["status"] == "passed"
    }


def test_it_works_in_pipelines_and_searches() -> None:
    x, y = _data()
    model = make_pipeline(StandardScaler(), KernelRegression(bandwidth=0.3))
    grid = {"kernelregression__bandwidth": [0.1, 0.3, [3.0]], "kernelregression__degree": [0, 1]}
    search = GridSearchCV(model, grid, cv=3).fit(x, y)
    assert search.best_score_ > 0.8
    assert search.best_params_["kernelregression__bandwidth"] in (0.1, 0.3)
    assert np.corrcoef(cross_val_predict(model, x, y, cv=4), y)[0, 1] > 0.9


def test_a_clone_and_a_pickle_predict_the_same() -> None:
    x, y = _data()
    fitted = KernelRegression().fit(x, y)
    again = clone(fitted).fit(x, y)
    assert np.array_equal(fitted.predict(x), again.predict(x))
    restored = pickle.loads(pickle.dumps(fitted))
    for one, other in zip(restored.predict(x, True), fitted.predict(x, return_std=True), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.long
def test_importing_it_imports_no_framework() -> None:
    names = "{'pytorch_lightning', 'lightning', 'hydra', 'omegaconf', 'tensorboard', 'matplotlib'}"
    script = f"import sys, attention_lab.estimators; sys.exit(str({names} & set(sys.modules) or 0) != '0')"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_three_samples_by_hand() -> None:
    x, y = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    model = KernelRegression(kernel="epanechnikov", bandwidth=2.0).fit(x, y)
    assert model.predict([[0.0], [1.0]]) == pytest.approx([(1 + 0.75 * 2) / 1.75, (0.75 + 2) / 1.75])
    assert model.loo_predictions_ == pytest.approx([2.0, 1.0, 2.0])  # of 3.0 the nearest, 2 away
    assert model.loo_error_ == pytest.approx((1 + 1 + 4) / 3)
    line = KernelRegression(kernel="boxcar", bandwidth=10.0, degree=1).fit(x, y)
    assert line.predict([[2.0], [5.0]]) == pytest.approx([3.0, 6.0])
    box = KernelRegression(kernel="boxcar", bandwidth=1.0).fit(x, y)
    assert box.predict([[0.0], [2.0], [9.0], [4.5]]) == pytest.approx([1.5, 3.0, 4.0, 4.0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("degree", [0, 1])
def test_leaving_out_is_fitting_without(kernel: str, degree: int) -> None:
    x, y = _data(25, inputs=2)
    model = KernelRegression(kernel, bandwidth=[1.0, 1.5], degree=degree).fit(x, y)
    for row in range(0, 25, 6):
        others = np.arange(25) != row
        alone = clone(model).fit(x[others], y[others]).predict(x[[row]])
        assert model.loo_predictions_[row] == pytest.approx(alone[0])


def test_targets_keep_their_shape_and_inputs_their_dtype() -> None:
    x, y = _data()
    both = KernelRegression(bandwidth=0.3).fit(x, np.stack([y, -3 * y], 1))
    mean, error = both.predict(x[:7], return_std=True)
    assert mean.shape == error.shape == (7, 2)
    left_out = np.stack([y, -3 * y], 1) - both.loo_predictions_
    assert both.loo_error_ == pytest.approx(np.mean(left_out**2))
    assert both.sigma_ == pytest.approx(both.sigma_[0] * np.array([1, 3]))
    one = KernelRegression(bandwidth=0.3).fit(x.astype(np.float32), y.astype(np.float32))
    found = one.predict(x[:7].astype(np.float32))
    assert found.dtype == np.float32
    assert found == pytest.approx(mean[:, 0], rel=1e-5)
    whole = both.predict([[1], [2]])  # estimates at whole numbers are none
    assert whole.dtype == np.float64 and whole.tolist() == both.predict([[1.0], [2.0]]).tolist()


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("degree", [0, 1])
def test_a_weight_is_a_number_of_samples(kernel: str, degree: int) -> None:
    x, y = _data(40)
    counts = np.random.default_rng(1).integers(0, 4, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # repeated samples predict each other
        weighted = KernelRegression(kernel, degree=degree).fit(x, y, sample_weight=counts)
        repeated = KernelRegression(kernel, degree=degree).fit(x.repeat(counts, 0), y.repeat(counts))
    assert weighted.bandwidth_ == pytest.approx(repeated.bandwidth_)
    assert weighted.loo_error_ == pytest.approx(repeated.loo_error_)
    assert weighted.sigma_ == pytest.approx(repeated.sigma_)
    grid = np.linspace(-1, 6, 30)[:, None]
    for one, other in zip(weighted.predict(grid, True), repeated.predict(grid, True), strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_intervals_of_a_line_are_those_of_least_squares() -> None:
    sm = pytest.importorskip("statsmodels.api")
    x, y = _data(30)
    model = KernelRegression(bandwidth=1e5, degree=1, tolerance=None).fit(x, y)
    assert model.effective_dof_ == pytest.approx(2)
    assert model.residual_dof_ == pytest.approx(28)
    grid = np.linspace(-2, 8, 9)
    table = sm.OLS(y, sm.add_constant(x)).fit().get_prediction(sm.add_constant(grid))
    for of_observations in (False, True):
        wanted = table.conf_int(obs=of_observations, alpha=0.1)
        low, high = model.predict_interval(grid[:, None], 0.9, of_observations=of_observations)
        assert low == pytest.approx(wanted[:, 0], rel=1e-6)
        assert high == pytest.approx(wanted[:, 1], rel=1e-6)
    assert model.predict(grid[:, None]) == pytest.approx(LinearRegression().fit(x, y).predict(grid[:, None]))


@pytest.mark.parametrize("degree", [0, 1])
def test_standard_errors_are_those_of_the_smoother_matrix(degree: int) -> None:
    x, y = _data(60, inputs=2)
    model = KernelRegression(bandwidth=0.8, degree=degree).fit(x, y)
    matrix = np.stack([clone(model).fit(x, column).predict(x) for column in np.eye(60)], 1)
    residual = 60 - 2 * np.trace(matrix) + (matrix**2).sum()
    sigma = np.sqrt(((y - matrix @ y) ** 2).sum() / residual)
    assert model.residual_dof_ == pytest.approx(residual)
    assert model.sigma_ == pytest.approx(sigma)
    assert model.predict(x, return_std=True)[1] == pytest.approx(sigma * np.sqrt((matrix**2).sum(1)))


def test_intervals_cover_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    x = np.linspace(0, 1, 60)[:, None]
    truth = 2 * x[:, 0]  # a line: local lines have no bias
    inside = []
    for _ in range(60):
        low, high = (
            KernelRegression(bandwidth=0.1, degree=1)
            .fit(x, truth + generator.standard_normal(60))
            .predict_interval(x, 0.9)
        )
        inside.append((low < truth) & (truth < high))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)


def test_a_curve_through_all_samples_has_no_estimate_of_the_noise() -> None:
    x, y = _data(10)
    model = KernelRegression("boxcar", bandwidth=1e-9).fit(x, y)
    assert model.predict(x) == pytest.approx(y)
    assert np.isinf(model.predict(x, return_std=True)[1]).all()
    assert np.isinf(model.predict_interval(x)).all()


def test_an_end_of_the_search_is_warned_of() -> None:
    generator = np.random.default_rng(1)
    x = np.linspace(0, 1, 50)[:, None]
    with pytest.warns(ConvergenceWarning, match="largest bandwidth for inputs.*a straight line"):
        model = KernelRegression(degree=1).fit(x, 2 * x[:, 0] + generator.standard_normal(50))
    assert model.bandwidth_ > 1
    groups = np.repeat(np.arange(10.0), 4)[:, None]
    with pytest.warns(ConvergenceWarning, match="smallest bandwidth for inputs") as warned:
        KernelRegression().fit(groups, 10 * (groups[:, 0] % 2) + 0.1 * generator.random(40))
    assert warned[0].filename == __file__, "the line that fits is named"


def test_a_constant_input_or_target_is_no_trouble() -> None:
    x, y = _data(50)
    padded = np.c_[x, np.full(50, 1e8)]
    assert KernelRegression().fit(padded, y).predict(padded) == pytest.approx(
        KernelRegression().fit(x, y).predict(x)
    )
    flat = KernelRegression().fit(x * 0 + 3, y)
    assert flat.predict([[3.0], [9.0]]) == pytest.approx([y.mean(), y.mean()])
    assert (KernelRegression().fit(x, y * 0 + 7).predict(x) == 7).all()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"kernel": "gauss"}, r"kernel must be one of gaussian, .*, got 'gauss'"),
        ({"bandwidth": -1.0}, r"bandwidth must be a positive number, or one for each of 1 inputs, got -1.0"),
        ({"bandwidth": [1.0, 2.0]}, "one for each of 1 inputs"),
        ({"bandwidth": "cv"}, "bandwidth must be numbers or 'loo', got 'cv'"),
        ({"degree": 2}, "degree must be 0 or 1, got 2"),
        ({"tolerance": 0.0}, "tolerance must be above 0 and below 1, or None, got 0.0"),
        ({"tolerance": 2.0}, "tolerance must be above 0 and below 1, or None, got 2.0"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        KernelRegression(**options).fit(*_data(9))


def test_weights_may_sum_to_one() -> None:
    x, y = _data(9)
    model, shares = (
        KernelRegression().fit(x, y),
        KernelRegression().fit(x, y, sample_weight=np.full(9, 1 / 9)),
    )
    assert shares.bandwidth_ == pytest.approx(model.bandwidth_)
    assert shares.loo_error_ == pytest.approx(model.loo_error_)


def test_wrong_data_and_levels_are_rejected() -> None:
    x, y = _data(9)
    with pytest.raises(ValueError, match="at least 2 samples, got n_samples = 1"):
        KernelRegression().fit(x[:1], y[:1])
    with pytest.raises(ValueError, match="at least 2 samples"):
        KernelRegression().fit(x, y, sample_weight=np.eye(9)[0])
    with pytest.raises(ValueError, match="level must be above 0 and below 1, got 95"):
        KernelRegression(bandwidth=1.0).fit(x, y).predict_interval(x, level=95)


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
def test_bandwidths_are_found_where_gradients_are_switched_off(without_gradients: Any) -> None:
    """As in a validation of PyTorch Lightning."""
    inputs = np.random.default_rng(0).normal(size=(60, 2))
    expected = KernelRegression().fit(inputs, inputs[:, 0] ** 2)
    with without_gradients():
        model = KernelRegression().fit(inputs, inputs[:, 0] ** 2)
        assert not torch.is_grad_enabled()
    np.testing.assert_array_equal(model.bandwidth_, expected.bandwidth_)
    np.testing.assert_array_equal(model.predict(inputs), expected.predict(inputs))
