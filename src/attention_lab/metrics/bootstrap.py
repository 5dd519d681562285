"""Bootstrap intervals: how much an error rate would vary on other test examples of the same kind."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

RESAMPLES = 10_000


class Interval(NamedTuple):
    """The ends of an interval; NaN if there is nothing to resample."""

    low: float
    high: float


def bootstrap_interval(
    numerators: Int[np.ndarray, " N"],
    denominators: Int[np.ndarray, " N"],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a ratio of sums over N examples.

        r* = sum_i c_i a_i / sum_i c_i b_i,   c ~ Multinomial(N; 1/N, ..., 1/N)

    (Efron 1979, "Bootstrap methods: another look at the jackknife"; for error rates of sequences, Bisani &
    Ney 2004, "Bootstrap estimates for confidence intervals in ASR performance evaluation".) Entire examples
    are sampled, with replacement, because errors within an example are dependent. The ends of the interval
    are the quantiles `(1 - level) / 2` and `(1 + level) / 2` of `r*` over the resamples.

    Examples with the same pair (a, b) are interchangeable, and the counts of the *pairs* are multinomial too.
    A resample therefore needs only a few counts, for any N, with exactly the same distribution.

    If no example has an error, every resample is 0, which says nothing about other examples. The upper end is
    then that of the exact binomial interval for 0 of the n examples with `b_i > 0`,

        u = 1 - ((1 - level) / 2)^(1/n)

    (Clopper & Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the
    binomial"), 0.0243 for n = 150 and a level of 0.95. It bounds the share of examples with errors, and hence
    also the ratio, if wrong examples are as long as others and have at most one error per symbol. If every
    example has as many errors as symbols, every resample is 1, and the lower end is `1 - u`.

    Args:
        numerators: one for each example, such as its edits.
        denominators: one for each example, such as the length of its reference.
        level: share of the resamples within the interval.
        resamples: number of resamples.
        seed: seed of the resampling; the same examples give the same interval in any order.

    Returns:
        The interval. Resamples whose denominators sum to 0 are left out.
    """
    if not len(numerators):
        return Interval(np.nan, np.nan)
    pairs, counts = np.unique(np.stack([numerators, denominators], 1), axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(counts.sum(), counts / counts.sum(), resamples)
    sums = drawn @ pairs
    sums = sums[sums[:, 1] > 0]
    if not len(sums):
        return Interval(np.nan, np.nan)
    least = float(((1 - level) / 2) ** (1 / np.count_nonzero(denominators)))
    if not sums[:, 0].any():
        return Interval(0.0, 1 - least)
    if (pairs[:, 0] == pairs[:, 1]).all():
        return Interval(least, 1.0)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
