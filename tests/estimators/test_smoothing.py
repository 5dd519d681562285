"""Kernel regression by sums over sorted samples: the formulas of all pairs, in float64 and beyond."""

from fractions import Fraction

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.attention.fast.gaussian import regression
from attention_lab.attention.fast.gaussian.regression import gaussian_reference, gaussian_regression
from attention_lab.attention.scores.kernels import LOG_KERNELS
from attention_lab.estimators.smoothing import compact, smooth
from attention_lab.estimators.smoothing.dense import leave_one_out_gradient, smooth_pairs
from attention_lab.estimators.smoothing.prefix_sums import places, prefix_sums
from attention_lab.estimators.smoothing.samples import Samples, make_samples


def _samples(seed: int, n: int, inputs: int = 1, offset: float = 0.0) -> Samples:
    """Some samples far apart, some equal, some alone; weights of 0.1 to 4."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, inputs, dtype=torch.float64, generator=generator)
    x = torch.where(torch.rand(n, 1, generator=generator) < 0.2, x.round() * 5, x)
    x = (x + offset) - offset  # what float64 holds at this offset
    y = torch.randn(n, 2, dtype=torch.float64, generator=generator)
    return make_samples(x, y, 0.1 + 4 * torch.rand(n, dtype=torch.float64, generator=generator).square())


def _tensor(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _reference(samples: Samples, query: Tensor, h: float, kernel: str, degree: int, own: Tensor) -> Tensor:
    """Weighted least squares for one query after the other."""
    rows = []
    for x, out in zip(query, own.tolist(), strict=True):
        kept = torch.arange(len(samples.keys)) != out
        keys, values, weights = samples.keys[kept], samples.values[kept], samples.weights[kept]
        logs = LOG_KERNELS[kernel]((x / h)[None], keys / h)[0]
        if (logs == -torch.inf).all():
            far = (keys - x).abs().sum(-1)
            logs = torch.where(far == far.min(), 0.0, -torch.inf)
        root = (weights.log() + logs - logs.max()).exp().sqrt()[:, None]
        design = torch.cat([torch.ones_like(keys), (keys - x) / h][: 1 + degree], -1)
        rows.append(torch.linalg.lstsq(design * root, values * root, driver="gelsd").solution[0])
    return torch.stack(rows)


@pytest.mark.parametrize("kernel", LOG_KERNELS)
@pytest.mark.parametrize("degree", [0, 1])
def test_all_pairs_are_weighted_least_squares(kernel: str, degree: int) -> None:
    samples = _samples(0, 40)
    inside = samples.keys[:, 0].abs() < 1.5  # elsewhere lines are steep
    samples = make_samples(samples.keys[inside], samples.values[inside], samples.weights[inside])
    query, own = torch.linspace(-1, 1, 9)[:, None].double(), torch.full([9], -1)
    found = smooth_pairs(samples, query, _tensor(0.8), kernel, degree).mean
    torch.testing.assert_close(found, _reference(samples, query, 0.8, kernel, degree, own))
    left_out = smooth_pairs(
        samples, samples.keys, _tensor(0.8), kernel, degree, torch.arange(len(samples.keys))
    )
    wanted = _reference(samples, samples.keys, 0.8, kernel, degree, torch.arange(len(samples.keys)))
    torch.testing.assert_close(left_out.mean, wanted)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", LOG_KERNELS)
@settings(max_examples=15)
@example(21851, 2, 1, 1e3, 0.0, True)  # a steep line of a flat kernel
@given(
    st.integers(0, 10**6),
    st.integers(2, 120),
    st.sampled_from([0, 1]),
    st.sampled_from([1e-4, 0.03, 0.3, 1.0, 7.0, 1e3]),
    st.sampled_from([0.0, 1e3, 1e8]),
    st.booleans(),
)
def test_sums_over_sorted_samples_are_those_over_all_pairs(
    kernel: str, seed: int, n: int, degree: int, h: float, offset: float, own: bool
) -> None:
    samples = _samples(seed, n, offset=offset)
    query = samples.keys[samples.single] if own else torch.linspace(-20, 20, 61)[:, None].double()
    left_out = samples.single if own else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smooth, "SUMS_FROM", 0)
        patch.setattr(regression, "CELLS_FROM", 1)
        patch.setattr(compact, "ROWS", 16)
        patch.setattr(compact, "TERMS", 64)
        found = smooth.smooth(samples, query, _tensor(h), kernel, degree, 1e-6, left_out, errors=True)
    wanted = smooth_pairs(samples, query, _tensor(h), kernel, degree, left_out, errors=True)
    assert found.norm is not None and wanted.norm is not None
    scale = float(samples.values.abs().max())
    tight = (wanted.norm * samples.weights.max() / samples.unit) ** 0.5  # steep lines carry errors further
    error = (found.mean - wanted.mean).abs().amax(-1)
    assert (error <= 1e-6 * scale * (1 + tight)).all()
    assert ((found.norm - wanted.norm).abs() <= 2e-3 * wanted.norm).all()
    assert found.influence is not None and wanted.influence is not None
    assert found.influence.isfinite().all()
    mass = torch.maximum(found.influence, wanted.influence) < 1e6  # not only a sample at the kernel's edge
    torch.testing.assert_close(found.influence[mass], wanted.influence[mass], atol=0, rtol=1e-3)
    if not own:
        return
    assert found.mean.isfinite().all()


@pytest.mark.parametrize("h", [1e-10, 1e-200])
@pytest.mark.parametrize("degree", [0, 1])
def test_a_vanishing_laplacian_kernel_takes_the_nearest_sample(
    h: float, degree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smooth, "SUMS_FROM", 0)
    samples = make_samples(_tensor(0, 1)[:, None], _tensor(3, 5)[:, None], torch.ones(2).double())
    query = _tensor(-7, 0, 0.3, 0.5, 0.6, 9)[:, None]
    found = smooth.smooth(samples, query, _tensor(h), "laplacian", degree, None, errors=True)
    assert found.norm is not None
    assert found.mean[:, 0].tolist() == [3.0, 3.0, 3.0, 4.0, 5.0, 5.0]
    assert found.norm.tolist() == [1.0, 1.0, 1.0, 0.5, 1.0, 1.0]


@settings(max_examples=30)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=700), st.data())
def test_differences_of_prefix_sums_are_exact(numbers: list[float], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    end = data.draw(st.integers(start, len(numbers)))
    ends = (places(torch.tensor([place])) for place in (start, end))
    found = prefix_sums(_tensor(*numbers)).between(*ends)
    exact = sum(map(Fraction, numbers[start:end]), Fraction(0))
    near = numbers[max(start - 128, 0) : end + 128]
    assert abs(Fraction(float(found)) - exact) <= 1e-14 * sum(map(abs, near)) + 1e-300


def test_a_short_sum_among_millions_keeps_its_digits() -> None:
    numbers = torch.full([3_000_000], 0.1, dtype=torch.float64)
    numbers[::2] += 1e8
    sums = prefix_sums(numbers)
    start, end = (places(torch.tensor([place])) for place in (2_999_001, 2_999_004))
    plain = torch.cat([_tensor(0), numbers.cumsum(0)])
    exact = float(numbers[2_999_001:2_999_004].sum())
    assert float(sums.between(start, end)) == pytest.approx(exact, rel=1e-12)
    assert abs(float(plain[2_999_004] - plain[2_999_001]) - exact) > 1e-6 * 0.1  # what a plain one loses


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "tricube", "laplacian"])
@pytest.mark.parametrize("degree", [0, 1])
def test_the_gradient_is_that_of_the_error(kernel: str, degree: int) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.rand(60, 2, generator=generator).double(), torch.rand(60, 1, generator=generator).double()
    samples = make_samples(x, y, 0.5 + torch.rand(60, generator=generator).double())
    weights = samples.counts / samples.counts.sum()

    def error(log: Tensor) -> tuple[float, Tensor]:
        return leave_one_out_gradient(samples, log.exp(), kernel, degree, weights)

    log = _tensor(-1.0, -0.5)
    _, gradient = error(log)
    for place in range(2):
        step = torch.zeros(2).double()
        step[place] = 1e-6
        slope = (error(log + step)[0] - error(log - step)[0]) / 2e-6
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("inputs", [1, 2, 5])
@pytest.mark.parametrize("method", ["pairs", "sorted", "cells"])
def test_weights_of_the_samples_count_like_repetitions(
    inputs: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if inputs > 1 and method != "pairs":
        return
    monkeypatch.setattr(regression, "SORTING_FROM", 0 if method == "sorted" else 10**9)
    monkeypatch.setattr(regression, "CELLS_FROM", 1 if method == "cells" else 10**9)
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randn(50, size, dtype=torch.float64, generator=generator) for size in (inputs, 2))
    counts = torch.randint(1, 4, (50,), generator=generator)
    width = torch.ones(inputs, dtype=torch.float64).requires_grad_()
    query = torch.cat([x, x[:3] + 60])  # kernels of the last ones underflow
    index = torch.cat([torch.arange(50), torch.full([3], -1)])
    found = gaussian_regression(query, x, y, width, index, 1e-6, counts.double() / 3)
    places = torch.cat([torch.arange(50), torch.arange(50).repeat_interleave(counts)])
    keys = torch.cat([x, x.repeat_interleave(counts, 0)])  # the first 50 are far away, to be left out
    keys = keys.where(torch.arange(len(keys))[:, None] >= 50, 1e6)
    scores = -((query[:, None] - keys) * width).square().sum(-1) / 2
    scores = scores.masked_fill((places == index[:, None]) | (torch.arange(len(keys)) < 50), -torch.inf)
    wanted = torch.softmax(scores, -1) @ y[places]
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
    slopes = (torch.autograd.grad(one.square().sum(), width)[0] for one in (found, wanted))
    torch.testing.assert_close(*slopes, atol=1e-5, rtol=1e-5)
    plain = gaussian_regression(query, x, y, width, index, 1e-6, torch.ones(50).double())
    torch.testing.assert_close(plain, gaussian_reference(query, x, y, width, index), atol=1e-6, rtol=1e-6)


def test_no_query_is_no_estimate() -> None:
    samples = _samples(0, 10)
    for kernel in LOG_KERNELS:
        assert smooth.smooth(samples, samples.keys[:0], _tensor(1.0), kernel, 1, 1e-6).mean.shape == (0, 2)
