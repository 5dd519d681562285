"""Kernel regression for given bandwidths: which method sums the kernels, and what follows from the sums.

With weights s, `u_j = (x_j - x) / h` and `S_m = sum_j s_j K(u_j) u_j^m`, the local-constant estimate is
`f(x) = sum_j s_j K(u_j) y_j / S_0` (Nadaraya 1964, Watson 1964) and the local-linear one the value at x of
the line that minimises `sum_j s_j K(u_j) (y_j - a - b u_j)^2` (Cleveland 1979, Fan 1992). Both are
`f(x) = sum_j l_j(x) y_j`, with `l_j = s_j K(u_j) (S_2 - S_1 u_j) / (S_0 S_2 - S_1^2)` for the line.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.attention.fast.gaussian.pairs import Problem
from attention_lab.attention.fast.gaussian.regression import gaussian_moments
from attention_lab.estimators.smoothing.compact import ACCURATE, SHAPES, compact_moments
from attention_lab.estimators.smoothing.dense import FLAT, smooth_pairs
from attention_lab.estimators.smoothing.laplacian import laplacian_moments
from attention_lab.estimators.smoothing.samples import Samples, Smooth

SUMS_FROM = 2**18
"""The fewest pairs of one input for which sums over sorted samples or cells are faster than all pairs."""


def smooth(
    samples: Samples,
    query: Float[Tensor, "Q d"],
    bandwidth: Float[Tensor, " d"],
    kernel: str,
    degree: int,
    tolerance: float | None,
    own: Int[Tensor, " Q"] | None = None,
    *,
    errors: bool = False,
) -> Smooth:
    """Local-constant or local-linear kernel regression.

    A single input takes O(Q + K): Gaussian kernels use cells within the tolerance, the others are exact.
    Several inputs, or few pairs, use all pairs, in chunks. Where a compact kernel reaches no sample, the
    estimate is the mean of the nearest ones. Where all samples within reach have (almost) the same input, a
    local line becomes a local constant.

    Args:
        samples: the samples to smooth.
        query: points at which to estimate, relative to the same centre as the samples.
        bandwidth: h of each input.
        kernel: gaussian, epanechnikov, boxcar, laplacian or tricube.
        degree: 0 for local-constant, 1 for local-linear.
        tolerance: largest error of an estimate with a Gaussian kernel of one input, relative to the largest
            value; None: rounding errors only.
        own: the key that each query leaves out, which lies at the query.
        errors: whether to compute `norm` and `influence` too.
    """
    pairs = len(query) * len(samples.keys)
    if samples.keys.shape[1] > 1 or pairs < SUMS_FROM:
        return smooth_pairs(samples, query, bandwidth, kernel, degree, own, errors=errors)
    line = _Line(samples, query, float(bandwidth), kernel, 3 if degree else 1, tolerance, own)
    moments, top = line.moments(samples.columns())
    mass = moments[:, 0, :1]
    mean = moments[:, 0, 1:] / mass
    factors = None
    if degree:
        centre, square = moments[:, 1, :1] / mass, moments[:, 2, :1] / mass
        variance = square - centre.square()
        steep = variance > FLAT * square
        step = torch.where(steep, centre / torch.where(steep, variance, 1.0), 0.0)
        mean = mean - step * (moments[:, 1, 1:] / mass - centre * mean)
        factors = 1 + step * centre, step
    if not errors:
        return Smooth(mean)
    norm, influence = line.variance(mass[:, 0], top, factors)
    return Smooth(mean, norm, influence)


@dataclass
class _Line:
    """Sums over samples of one input; the options are those of `smooth`."""

    samples: Samples
    query: Tensor
    bandwidth: float
    kernel: str
    orders: int
    tolerance: float | None
    own: Tensor | None

    def moments(self, columns: Tensor, *, squared: bool = False) -> tuple[Tensor, Tensor]:
        """Sums of `K u^m` with each column, or of `K^2 u^m`, each row divided by `2^top`; and `top`."""
        line, query = self.samples.keys[:, 0], self.query[:, 0]
        if self.kernel in SHAPES:
            shape = SHAPES[self.kernel]
            shape, accurate = (shape.squared(), 1e-5) if squared else (shape, ACCURATE)
            found = compact_moments(
                line, columns, query, self.own, self.bandwidth, shape, self.orders, accurate
            )
            return found, torch.zeros_like(query)
        if self.kernel == "laplacian":
            scale = 2.0 if squared else 1.0
            found, top = laplacian_moments(
                line, columns, query, self.own, self.bandwidth / scale, self.orders
            )
        else:
            scale = math.sqrt(2.0) if squared else 1.0
            found, top = gaussian_moments(self._gaussian(columns, scale), self.tolerance)
        for order in range(1, self.orders):
            found[:, order] /= scale**order
        return found, top

    def _gaussian(self, columns: Tensor, scale: float) -> Problem:
        rate = (scale / self.bandwidth) ** 2 * 0.5 * math.log2(math.e)
        return Problem(
            self.query,
            self.samples.keys,
            self.samples.values[:, : columns.shape[1] - 1],
            self.query.new_tensor([rate]),
            torch.full([len(self.query)], -1) if self.own is None else self.own,
            slopes=False,
            weights=self.samples.weights,
            linear=self.orders > 1,
        )

    def variance(
        self, mass: Tensor, top: Tensor, factors: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """`norm` and `influence` of the smoother `l_j = s_j K(u_j) (a - b u_j) / S_0` with these factors."""
        samples = self.samples
        squares, above = self.moments(samples.weights[:, None], squared=True)
        total = squares[:, 0, 0]
        influence = (-(mass.log2() + top).clamp_min(-1000.0)).exp2() * samples.unit
        if factors is not None:
            a, b = (factor[:, 0] for factor in factors)
            total = a.square() * total - 2 * a * b * squares[:, 1, 0] + b.square() * squares[:, 2, 0]
            influence = influence * a
        norm = total / mass.square() * (above - 2 * top).exp2() * samples.unit
        # weights that sum to one have at least the mean's squares (Cauchy-Schwarz), whatever has cancelled
        return norm.clamp_min(samples.unit / float(samples.weights.sum())), influence
