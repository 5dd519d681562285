"""The interval of an error rate, against resampling example by example and the binomial distribution."""

import math

import numpy as np
import pytest
from scipy import stats

from attention_lab.metrics import bootstrap_interval


def _examples(n: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    lengths = generator.integers(1, 12, n)
    return generator.binomial(lengths, 0.3), lengths


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_it_is_what_drawing_the_examples_themselves_gives(level: float) -> None:
    edits, lengths = _examples(200)
    generator = np.random.default_rng(1)
    rates = []
    for _ in range(20_000):
        rows = generator.integers(0, 200, 200)
        rates.append(edits[rows].sum() / lengths[rows].sum())
    expected = np.percentile(rates, [50 * (1 - level), 50 * (1 + level)])
    found = bootstrap_interval(edits, lengths, level=level)
    assert found == pytest.approx(expected, abs=0.0015)
    assert found.low < edits.sum() / lengths.sum() < found.high


def test_it_is_that_of_scipy() -> None:
    edits, lengths = _examples(150)
    theirs = stats.bootstrap(
        (edits, lengths),
        lambda a, b, axis: a.sum(axis) / b.sum(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert bootstrap_interval(edits, lengths) == pytest.approx(tuple(theirs), abs=0.003)


@pytest.mark.parametrize(("errors", "n"), [(30, 100), (1, 10)])  # with few, some resamples have none
def test_of_a_fraction_it_is_binomial(errors: int, n: int) -> None:
    wrong = np.array([1] * errors + [0] * (n - errors))
    ends = stats.binom.ppf([0.025, 0.975], n, errors / n) / n
    assert bootstrap_interval(wrong, np.ones_like(wrong)) == pytest.approx(ends, abs=0.005)


def test_the_same_examples_in_any_order_have_the_same_interval() -> None:
    edits, lengths = _examples(60)
    order = np.random.default_rng(2).permutation(60)
    first = bootstrap_interval(edits, lengths)
    assert bootstrap_interval(edits[order], lengths[order]) == first
    assert bootstrap_interval(edits, lengths, seed=1) != first


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_without_errors_the_upper_end_is_that_of_the_exact_binomial_interval(level: float) -> None:
    none = np.zeros(150, dtype=np.int64)
    exact = stats.binomtest(0, 150).proportion_ci(level, method="exact")
    found = bootstrap_interval(none, np.ones_like(none), level=level)
    assert found == pytest.approx((0.0, exact.high)) and exact.low == 0
    # symbols of an example are not independent: the number of examples counts, without empty ones
    lengths = np.arange(152) * (np.arange(152) != 7)
    assert bootstrap_interval(np.zeros_like(lengths), lengths, level=level) == pytest.approx(found)


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_with_errors_only_the_lower_end_is_that_of_the_exact_binomial_interval(level: float) -> None:
    exact = stats.binomtest(150, 150).proportion_ci(level, method="exact")
    every = np.ones(150, dtype=np.int64)
    assert bootstrap_interval(every, every, level=level) == pytest.approx((exact.low, 1.0))
    lengths = np.arange(152) * (np.arange(152) != 7)
    assert bootstrap_interval(lengths, lengths, level=level) == pytest.approx((exact.low, 1.0))
    # more edits than symbols, or none in an example, and the resamples tell
    assert bootstrap_interval(lengths + (lengths > 9), lengths, level=level).low > 1


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.98])
def test_the_interval_of_a_fraction_holds_the_truth_19_times_in_20(rate: float) -> None:
    chances = stats.binom.pmf(np.arange(51), 50, rate)
    covered = 0.0
    for errors in np.flatnonzero(chances > 1e-6):
        wrong = (np.arange(50) < errors).astype(np.int64)
        low, high = bootstrap_interval(wrong, np.ones_like(wrong), resamples=2000)
        covered += chances[errors] * (low <= rate <= high)
    assert covered > 0.945


def test_the_least_cases() -> None:
    none = np.array([], dtype=np.int64)
    assert all(map(math.isnan, bootstrap_interval(none, none)))
    assert all(map(math.isnan, bootstrap_interval(np.array([2]), np.array([0]))))
    assert bootstrap_interval(np.array([1]), np.array([4])) == (0.25, 0.25)
    assert bootstrap_interval(np.array([1]), np.array([1])) == pytest.approx((0.025, 1.0))
    # A resample without any symbol has no rate: what is left is 3 / 4 or the like, never infinite.
    found = bootstrap_interval(np.array([3, 1]), np.array([4, 0]))
    assert found.low == 0.75
    assert math.isfinite(found.high)
