"""The search for a bandwidth: as low an error as on a fine grid, with all samples and from a part of them."""

import numpy as np
import pytest
import torch

from attention_lab.estimators import bandwidth
from attention_lab.estimators.bandwidth import choose_bandwidth
from attention_lab.estimators.leave_one_out import LeaveOneOut
from attention_lab.estimators.smoothing.samples import make_samples


def _error(n: int, inputs: int, kernel: str, degree: int, slope: float = 0.3) -> LeaveOneOut:
    generator = np.random.default_rng(0)
    x = 5 * generator.random((n, inputs))
    y = 2 * np.sin(2 * x[:, :1]) + slope * x[:, -1:] + 0.3 * generator.standard_normal((n, 1))
    samples = make_samples(torch.from_numpy(x), torch.from_numpy(y - y.mean()), torch.ones(n).double())
    return LeaveOneOut(samples, kernel, degree, tolerance=None)


@pytest.mark.sampled(4, rest="long")
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "epanechnikov"])
@pytest.mark.parametrize("degree", [0, 1])
def test_no_bandwidth_of_a_fine_grid_has_a_lower_error(kernel: str, degree: int) -> None:
    loo = _error(60, 1, kernel, degree)
    found = choose_bandwidth(loo)
    lowest = min(loo.error(torch.tensor([one]).double()) for one in np.geomspace(0.01, 100, 200))
    assert loo.error(found.bandwidth) <= lowest * (1 + 1e-9)
    assert (found.smallest, found.largest) == ([], [])


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_no_other_bandwidth_of_one_input_has_a_lower_error(kernel: str) -> None:
    loo = _error(60, 2, kernel, 0)
    found, smallest, largest = choose_bandwidth(loo)
    others = [
        found * torch.tensor(pair) for ratio in (0.9, 0.98, 1.02, 1.1) for pair in ((1, ratio), (ratio, 1))
    ]
    assert loo.error(found) <= min(map(loo.error, others))
    assert (smallest, largest) == ([], [])


def test_an_input_that_does_not_matter_is_smoothed_out() -> None:
    found = choose_bandwidth(_error(60, 2, "gaussian", 0, slope=0.0))
    assert found.bandwidth[1] > 1000 > found.bandwidth[0]
    assert found.smallest == []


@pytest.mark.long
def test_bandwidths_have_the_units_of_their_inputs() -> None:
    loo, units = _error(60, 2, "gaussian", 1, slope=0.0), torch.tensor([1e-4, 1e4]).double()
    keys, values, weights = loo.samples.keys, loo.samples.values, loo.samples.weights
    scaled = LeaveOneOut(make_samples(keys * units, values, weights), "gaussian", 1, tolerance=None)
    found, other = choose_bandwidth(loo), choose_bandwidth(scaled)
    assert other.bandwidth / units == pytest.approx(found.bandwidth, rel=1e-3)
    assert found[1:] == other[1:]


def test_the_best_bandwidth_is_expected_to_fall_with_the_number_of_samples() -> None:
    few, many = _error(20, 1, "gaussian", 0), _error(640, 1, "gaussian", 0)
    assert many.optimal_factor(few) == pytest.approx(32 ** (-1 / 5))
    assert _error(640, 2, "gaussian", 0).optimal_factor(few) == pytest.approx(32 ** (-1 / 6))


@pytest.mark.parametrize(
    ("kernel", "degree"), [("gaussian", 0), ("gaussian", 1), ("laplacian", 0), ("epanechnikov", 1)]
)
def test_the_gradient_is_that_of_the_error(kernel: str, degree: int) -> None:
    loo, log, step = _error(60, 2, kernel, degree), torch.tensor([0.3, -0.2]).double(), 1e-5
    error, gradient = loo.gradient(log.exp())
    assert error == pytest.approx(loo.error(log.exp()))
    for one, direction in zip(gradient, torch.eye(2).double() * step, strict=True):
        change = loo.error((log + direction).exp()) - loo.error((log - direction).exp())
        assert float(one) == pytest.approx(change / (2 * step), rel=1e-4)


@pytest.mark.parametrize(
    ("n", "inputs", "many"), [(50, 1, False), (51, 1, True), (20, 2, False), (21, 2, True)]
)
def test_a_search_starts_from_a_part_of_many_samples(
    n: int, inputs: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandwidth, "MANY", 50)
    monkeypatch.setattr(bandwidth, "MANY_PAIRS", 20)
    line = bandwidth._LineSearch(
        _error(n, inputs, "gaussian", 0), torch.ones(inputs).double(), [*range(inputs)]
    )
    assert line.many == many


def test_the_lowest_minima_of_a_grid_come_first_and_a_plateau_counts_at_its_end() -> None:
    errors = np.array([3.0, 2.0, 4.0, 1.0, 1.0, 5.0, 2.5, 6.0, 0.5])
    assert bandwidth._minima(errors) == [8, 4, 1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("inputs", "kernel", "degree"),
    [(1, "gaussian", 0), (1, "gaussian", 1), (1, "laplacian", 0), (2, "gaussian", 0)],
)
def test_a_search_from_a_part_of_the_samples_ends_where_the_full_one_does(
    inputs: int, kernel: str, degree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loo = _error(160, inputs, kernel, degree)
    full = choose_bandwidth(loo)
    for name in ("MANY", "MANY_PAIRS", "PILOT"):
        monkeypatch.setattr(bandwidth, name, 100)
    part = choose_bandwidth(loo)
    assert part.bandwidth == pytest.approx(full.bandwidth, rel=1e-3)
    assert part[1:] == full[1:] == ([], [])


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("guess", [0.2, 5.0])
def test_a_search_from_a_part_that_starts_far_off_goes_downhill(
    guess: float, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loo = _error(160, 1, kernel, 0)
    full = choose_bandwidth(loo).bandwidth
    for name in ("MANY", "PILOT"):
        monkeypatch.setattr(bandwidth, name, 100)
    monkeypatch.setattr(LeaveOneOut, "optimal_factor", lambda *_: guess)
    assert choose_bandwidth(loo).bandwidth == pytest.approx(full, rel=1e-3)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_a_search_from_a_part_reports_an_end_too(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    x = torch.linspace(0, 1, 160).double().unsqueeze(1)
    y = x - 0.5 + 0.3 * torch.from_numpy(generator.standard_normal((160, 1)))
    loo = LeaveOneOut(make_samples(x, y, torch.ones(160).double()), kernel, 1, tolerance=None)
    for name in ("MANY", "PILOT"):
        monkeypatch.setattr(bandwidth, name, 100)
    assert choose_bandwidth(loo)[1:] == ([], [0])  # a straight line


def test_few_samples_have_bandwidths_in_proportion_to_the_spread_of_their_inputs() -> None:
    loo = _error(19, 2, "gaussian", 0)
    found = choose_bandwidth(loo).bandwidth
    assert found / found[0] == pytest.approx(loo.samples.keys.std(0) / loo.samples.keys[:, 0].std())


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("far", [20, 30, 37])
def test_the_slope_is_a_number_where_all_but_equal_inputs_are_far(inputs: int, far: float) -> None:
    x = torch.tensor([0.0, 0.0, far]).double()[:, None].repeat(1, inputs)
    samples = make_samples(x, torch.tensor([[0.0], [1.0], [3.0]]).double(), torch.ones(3).double())
    _, gradient = LeaveOneOut(samples, "gaussian", 1, tolerance=None).gradient(torch.ones(inputs).double())
    assert torch.allclose(gradient, torch.zeros_like(gradient), atol=1e-12)
