"""Confidence intervals of means over seeds, and tests whether one setting is worse. It needs no torch."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95
MOST_DRAWN = 20_000
"""The largest number of examples that are drawn one by one."""
CHUNK = 2_000_000  # numbers held in memory at a time


class Estimate(NamedTuple):
    """Mean and standard deviation of n values, and half the width of the 95% interval of the mean.

    With s the standard deviation (n - 1 in its denominator) and t the quantile of Student's distribution
    (1908), half the width is `t_{0.975, n-1} s / sqrt(n)`; for one value it is NaN.
    """

    n: int
    mean: float
    sd: float
    half: float


def mean(values: Sequence[float]) -> float:
    """The mean of values; NaN if there are none, or any of them is not finite."""
    return math.fsum(values) / len(values) if values and all(map(math.isfinite, values)) else math.nan


def estimate(values: Sequence[float]) -> Estimate:
    """The estimate from values; NaN if there are none, or any of them is not finite."""
    from scipy.special import stdtrit

    n, middle = len(values), mean(values)
    if n == 1 or not math.isfinite(middle):
        return Estimate(n, middle, math.nan, math.nan)
    sd = statistics.stdev(values)
    return Estimate(n, middle, sd, float(stdtrit(n - 1, (1 + LEVEL) / 2)) * sd / math.sqrt(n))


class Difference(NamedTuple):
    """The difference of one setting from another, paired over the seeds that both have.

    Attributes:
        n: number of seeds.
        mean: mean difference.
        low: lower end of its 95% interval; NaN if there is too little data for one.
        high: upper end.
        p: two-sided p-value of no difference; see `compare`.
        examples: whether the test examples were resampled too.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    examples: bool

    @property
    def certain(self) -> bool:
        """Whether all of several seeds have the same difference, and no examples were resampled."""
        return not self.examples and self.low == self.high


def compare(differences: Sequence[float], resampled: Array | None = None) -> Difference:
    """The mean of paired differences, one for each seed, with its 95% interval and p.

    A seed fixes initial weights, order and dropout, as far as two settings share these, so its common effect
    cancels in the difference. Let m be the mean of the differences over n seeds and s their standard
    deviation.

    Without `resampled`, this is Student's paired t test: `m ± t_{0.975, n-1} s / sqrt(n)`. It predicts other
    seeds on the same test examples. A difference that is the same for every seed is taken as certain.

    `resampled` holds the values of m on other test examples, drawn by `resample` (the paired bootstrap of
    Koehn 2004, "Statistical significance tests for machine translation evaluation", W04-3250). With it, the
    result predicts other seeds *and* other examples. A draw of the effect of other seeds is added to each
    resample r:

        e_r = m_r + t_r s / sqrt(n),   t_r ~ Student_{n-1}

    The interval's ends are the quantiles 0.025 and 0.975 of e, and p is twice the smaller of the shares of
    resamples on either side of zero. If all are on one side, it is the probability of the other side under
    Student's distribution around each m_r, or without s under a normal distribution with the mean and
    deviation of m_r: a limit of one resample would be too high once p is multiplied by many comparisons.

    Unlike the examples, seeds are not drawn with replacement: with three seeds, that would give two thirds of
    their variance, and normal rather than Student's quantiles. With one seed, there is no second term: the
    result is Koehn's and holds only for these two trained models.

    Args:
        differences: one for each seed.
        resampled: their mean on each of many resamples of the test examples.
    """
    from scipy.special import stdtr, stdtrit

    n, middle = len(differences), mean(differences)
    nothing = Difference(n, middle, math.nan, math.nan, math.nan, False)
    if not math.isfinite(middle) or (n == 1 and resampled is None):
        return nothing
    error = statistics.stdev(differences) / math.sqrt(n) if n > 1 else 0.0
    if resampled is None:
        half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
        p = 2 * float(stdtr(n - 1, -abs(middle) / error)) if error else float(middle == 0)
        return Difference(n, middle, middle - half, middle + half, p, False)
    means = drawn = resampled[np.isfinite(resampled)]
    if not len(drawn):
        return nothing
    if error:
        # A fixed seed, so that the same numbers have the same interval.
        drawn = means + error * np.random.default_rng(0).standard_t(n - 1, len(means))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    side = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    p = min(1.0, 2 * (side + 1) / (len(drawn) + 1))
    if not side:
        p = min(p, 2 * _share_beyond(means * np.sign(drawn[0]), error, n))
    return Difference(n, middle, float(low), float(high), p, True)


def _share_beyond(means: Array, error: float, n: int) -> float:
    """The probability of values below 0, around means on resamples that are above; see `compare`."""
    from scipy.special import ndtr, stdtr

    if error:
        return float(np.mean(stdtr(n - 1, -means / error)))
    spread = float(means.std())
    return float(ndtr(-means.mean() / spread)) if spread else 0.0


def resample(
    numerators: npt.NDArray[Any], denominators: npt.NDArray[Any], *, resamples: int = RESAMPLES, seed: int = 0
) -> Array:
    """The error rates of several runs on resampled test examples, which are the same for all runs.

        r*_m = sum_i c_i a_mi / sum_i c_i b_mi,   c ~ Multinomial(N; 1/N, ..., 1/N)

    Because c is shared, the difference of two columns is that of two runs on one test set (Koehn 2004).

    More than `MOST_DRAWN` examples are put at random into as many equal groups, which are drawn instead. In
    expectation, sums over groups have the same variance; that of these groups differs by about 1%.

    Args:
        numerators: `[runs, N]`, each run's errors on each example, such as its number of edits.
        denominators: `[runs, N]`, what they are divided by, such as the length of the reference.
        resamples: number of times that N examples are drawn with replacement.
        seed: seed of the draws.

    Returns:
        `[resamples, runs]`; NaN where the denominators sum to 0.
    """
    runs, size = numerators.shape
    generator = np.random.default_rng(seed)
    if size > MOST_DRAWN:
        order, size = generator.permutation(size), MOST_DRAWN
        numerators, denominators = (_in_groups(rows, order) for rows in (numerators, denominators))
    both = np.concatenate([numerators, denominators]).T.astype(np.float64)
    sums = np.empty((resamples, 2 * runs))
    step = max(1, CHUNK // size)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(0, size, (rows, size)) + size * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        sums[start : start + rows] = counts @ both
    below = sums[:, runs:]
    return np.divide(sums[:, :runs], below, out=np.full_like(below, np.nan), where=below > 0)


def _in_groups(rows: npt.NDArray[Any], order: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The sums of each row over `MOST_DRAWN` groups of consecutive values in the given order."""
    starts = np.arange(MOST_DRAWN) * len(order) // MOST_DRAWN
    return np.stack([np.add.reduceat(row[order], starts) for row in rows])
