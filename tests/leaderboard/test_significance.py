"""Intervals and differences, against formulas written out, against scipy, and by how often they hold."""

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from attention_lab.leaderboard import significance
from attention_lab.leaderboard.significance import compare, estimate, resample


@pytest.mark.parametrize("differences", [[0.02, 0.05, 0.03], [0.1, -0.2], [0.4, 0.1, -0.3, 0.2, 0.25]])
def test_paired_over_seeds_it_is_student_s_t_test(differences: list[float]) -> None:
    found = compare(differences)
    n, mean, sd = len(differences), statistics.mean(differences), statistics.stdev(differences)
    half = stats.t.ppf(0.975, n - 1) * sd / math.sqrt(n)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    theirs = stats.ttest_rel(differences, [0.0] * n)
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert (found.n, found.examples) == (n, False)


def test_a_difference_worked_out_by_hand() -> None:
    # mean 2, sd 1, t = 2 sqrt 3, two degrees of freedom: p = 1 - t / sqrt(t^2 + 2)
    found = compare([1.0, 2.0, 3.0])
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
    assert found.high - found.mean == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)


def test_a_difference_without_spread_is_certain_and_of_one_seed_unknown() -> None:
    assert compare([0.5, 0.5])[1:5] == (0.5, 0.5, 0.5, 0.0)
    assert compare([0.0, 0.0]).p == 1.0
    assert compare([0.5]).mean == 0.5 and math.isnan(compare([0.5]).p) and not compare([0.5]).examples
    assert math.isnan(compare([0.5, math.nan]).p)
    assert math.isnan(compare([0.5, 0.4], np.full(10, math.nan)).p)


def test_over_seeds_the_interval_holds_the_truth_19_times_in_20() -> None:
    samples = np.random.default_rng(0).normal(0.3, 1.0, (4000, 3))
    held = [found.low <= 0.3 <= found.high for found in (compare(list(row)) for row in samples)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.01)


def _world(generator: np.random.Generator, seeds: int, examples: int, seed_sd: float) -> np.ndarray:
    """`[2, seeds, examples]` errors of two settings; the second makes 0.1 more in truth."""
    hard = generator.normal(0, 0.8, examples)  # of an example, for both
    own = generator.normal(0, 0.5, (2, 1, examples))  # of an example, for one of them
    luck = generator.normal(0, seed_sd, (2, seeds, 1))
    mean = np.array([1.0, 1.1])[:, None, None]
    return mean + hard + own + luck + generator.normal(0, 0.5, (2, seeds, examples))


@pytest.mark.parametrize(("seeds", "seed_sd"), [(3, 0.2), (3, 0.0), (5, 0.05), (2, 0.1)])
def test_over_seeds_and_examples_the_interval_holds_the_truth_as_often(seeds: int, seed_sd: float) -> None:
    """Drawing seeds with replacement too would miss it in every fifth world of three seeds."""
    generator, held = np.random.default_rng(1), []
    for _ in range(250):
        errors = _world(generator, seeds, 60, seed_sd)
        rates = resample(errors.reshape(-1, 60), np.ones((2 * seeds, 60)), resamples=400)
        drawn = (rates[:, seeds:] - rates[:, :seeds]).mean(1)
        found = compare(list(np.diff(errors.mean(2), axis=0)[0]), drawn)
        held.append(found.low <= 0.1 <= found.high)
    assert 0.92 <= np.mean(held) <= 1.0


def test_of_one_seed_it_is_the_paired_bootstrap() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.binomial(1, 0.3, 80), generator.binomial(1, 0.4, 80)
    rates = resample(np.stack([first, second]), np.ones((2, 80)))
    found = compare([(second - first).mean()], rates[:, 1] - rates[:, 0])
    drawn = []
    for _ in range(10_000):  # example by example, both systems on the same ones
        rows = generator.integers(0, 80, 80)
        drawn.append(second[rows].mean() - first[rows].mean())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.013)
    assert found.p == pytest.approx(2 * np.mean(np.array(drawn) <= 0), abs=0.03)
    assert found.examples


@pytest.mark.parametrize("differences", [[0.2, 0.5, 0.3], [0.4, 0.1, -0.3, 0.2, 0.25]])
def test_where_examples_do_not_matter_it_is_student_s_t_test(differences: list[float]) -> None:
    student = compare(differences)
    found = compare(differences, np.full(200_000, student.mean))
    half = student.high - student.mean
    assert (found.low, found.high) == pytest.approx((student.low, student.high), abs=0.02 * half)
    assert found.p == pytest.approx(student.p, rel=0.03)


def test_p_over_resamples_worked_out_by_hand() -> None:
    assert compare([0.1], np.array([-0.1] + [0.1] * 8)).p == pytest.approx(2 * (1 + 1) / (9 + 1))
    assert compare([0.0], np.zeros(9)).p == 1.0
    assert compare([0.1], np.array([0.1, 0.2] * 5)).p == pytest.approx(2 * stats.norm.sf(3))
    assert compare([0.1], np.full(9, 0.1)).p == 0.0


@pytest.mark.parametrize("sign", [1, -1])
def test_p_may_be_smaller_than_the_share_of_one_resample(sign: int) -> None:
    """It is multiplied by the number of comparisons: nothing would be worse than the best of 300 settings."""
    differences = [0.200, 0.205, 0.195, 0.201, 0.199, 0.202]
    student = compare([sign * one for one in differences])
    found = compare([sign * one for one in differences], np.full(1000, student.mean))
    assert found.p == pytest.approx(student.p, rel=1e-6) and found.p < 1e-6
    drawn = sign * np.random.default_rng(0).normal(0.4, 0.05, 1000)
    assert compare([sign * 0.4], drawn).p == pytest.approx(2 * stats.norm.sf(8), rel=5)


def test_a_setting_that_errs_wherever_the_other_does_and_elsewhere_is_never_better() -> None:
    first = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0] * 4)
    second = np.maximum(first, np.array([0, 0, 1, 1, 0, 0, 0, 0, 0, 0] * 4))
    rates = resample(np.stack([first, second]), np.ones((2, 40)))
    found = compare([0.2], rates[:, 1] - rates[:, 0])
    assert found.low > 0 and found.p < 0.001


def test_resampled_rates_are_ratios_of_sums_on_examples_that_all_runs_share() -> None:
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, 9, 50)
    edits = generator.binomial(lengths, 0.3)
    rates = resample(np.stack([edits, edits, 2 * edits]), np.stack([lengths] * 3), resamples=5000)
    assert rates.shape == (5000, 3)
    assert (rates[:, 0] == rates[:, 1]).all()
    assert rates[:, 2] == pytest.approx(2 * rates[:, 0])
    rate = edits.sum() / lengths.sum()
    assert rates[:, 0].mean() == pytest.approx(rate, abs=0.005)
    # of a ratio, to first order
    sd = math.sqrt(((edits - rate * lengths) ** 2).sum()) / lengths.sum()
    assert rates[:, 0].std() == pytest.approx(sd, rel=0.06)
    assert (resample(edits[None], lengths[None]) == resample(edits[None], lengths[None])).all()


def test_many_examples_are_drawn_in_pieces(monkeypatch) -> None:
    edits = np.arange(30)[None]
    monkeypatch.setattr("attention_lab.leaderboard.significance.CHUNK", 100)
    rates = resample(edits, np.ones((1, 30)), resamples=400)
    assert rates.shape == (400, 1) and rates.mean() == pytest.approx(14.5, abs=0.4)
    assert np.isnan(resample(np.zeros((1, 2)), np.zeros((1, 2)), resamples=3)).all()
    assert (resample(np.ones((1, 1)), np.ones((1, 1)), resamples=3) == 1).all()


def test_the_time_for_very_many_examples_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of examples are drawn instead, and the rates have the same distribution."""
    generator = np.random.default_rng(4)
    lengths = np.repeat(generator.integers(1, 9, 40), 50)  # sorted, as a table may be
    edits = np.stack([generator.binomial(lengths, 0.3), generator.binomial(lengths, 0.4)])
    edits[0, 7] = 200  # an example that dominates
    one_by_one = resample(edits, np.stack([lengths] * 2))
    monkeypatch.setattr(significance, "MOST_DRAWN", 300)
    grouped = resample(edits, np.stack([lengths] * 2))
    assert significance._in_groups(edits, np.arange(2000)).shape == (2, 300)
    assert (significance._in_groups(edits, np.arange(2000)).sum(1) == edits.sum(1)).all()
    for pair in ([1, 0], [0, 1], [-1, 1]):
        found, wanted = grouped @ pair, one_by_one @ pair
        assert found.mean() == pytest.approx(wanted.mean(), abs=0.002)
        assert found.std() == pytest.approx(wanted.std(), rel=0.08)
    monkeypatch.setattr(significance, "MOST_DRAWN", 1)  # one group of all examples
    assert np.ptp(resample(edits, np.stack([lengths] * 2), resamples=3), axis=0).tolist() == [0, 0]


def test_no_value_but_nan_is_no_estimate() -> None:
    assert math.isnan(estimate([math.inf, 1.0]).mean) and estimate([math.inf, 1.0]).n == 2
