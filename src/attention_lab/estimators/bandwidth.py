"""Bandwidth selection by leave-one-out error: least squares cross-validation.

A line search computes the error on a logarithmic grid from below the distances between neighbours to far
beyond the range of the inputs. It refines the lowest minima: for a local-constant Gaussian kernel by the
root of the derivative, otherwise by golden sections with parabolic steps (Brent 1973). For a single input,
this is all.

With several inputs and enough samples, each input has its own bandwidth, because a large bandwidth smooths
out an input that does not matter (Hall, Li & Racine 2007). The line search is then over a common factor of
their standard deviations. The search continues by the gradient (Gaussian), otherwise by golden sections for
one input after the other. With many samples, the search starts from the result for a random part of them.
"""

from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, minimize_scalar
from torch import Tensor

from attention_lab.estimators.leave_one_out import LeaveOneOut

Array = NDArray[np.float64]
RATIO, FAR_RATIO = 1.2, 1.5
"""Ratio of neighbouring points of the grid, for few and for many samples."""
MANY = 5000
"""The largest number of samples of one input for which the entire grid is tried with all of them."""
MANY_PAIRS = 1500
"""The same for several inputs, whose errors take quadratic time."""
PILOT = 3000
"""With many samples of one input, a first search over this many random ones finds where to start."""
PER_INPUT = 10
"""The smallest number of samples per input for which inputs have bandwidths of their own."""
FLATTEST = 1e6
"""The largest bandwidth, in units of the input's range: the kernel is flat to 12 digits."""
SMALLEST = {"gaussian": 1 / 9, "laplacian": 1 / 36}
"""Bandwidths, in units of neighbour distances, at which only the nearest neighbour counts; otherwise 1."""
STEP = 1.3
"""Factor from one bandwidth to the next on the way downhill."""
MINIMA = 3
"""Number of local minima of the grid that are refined, if they may be the lowest."""
DEEPEST = 3
"""How far the error may fall between points of the grid, in units of its change from one to the next.

A parabola through three points, the middle one the lowest, falls by at most an eighth of that."""
PRECISION = 1e-4
"""Precision of the logarithm of a bandwidth for many samples; for few, it is 1e-9."""
SAME = 1e-11
"""Errors that differ by less, relative to the largest, count as equal: the smoothest of them is chosen."""
FEW = 1000
"""Up to this many samples, the grid starts at the smallest distance of all, with a step of `RATIO`, and the
derivative of a local-linear error is used too, over all pairs."""


class Choice(NamedTuple):
    """The chosen bandwidths, and the inputs whose bandwidth is the smallest or largest that was tried."""

    bandwidth: Float[Tensor, " d"]
    smallest: list[int]
    largest: list[int]


def choose_bandwidth(loo: LeaveOneOut) -> Choice:
    """The bandwidth of each input with the smallest leave-one-out error; 1 for a constant input."""
    spread, deviation = _spreads(loo)
    varying = (spread > 0).nonzero()[:, 0].tolist()
    unit = torch.ones_like(spread)
    if len(varying) > 1:
        unit[varying] = deviation[varying]
    if not varying:
        return Choice(unit, [], [])
    line = _LineSearch(loo, unit, varying)
    factor, smallest, largest = line.search()
    common = line.bandwidth(factor)
    if len(varying) == 1 or loo.size < PER_INPUT * len(varying):
        return Choice(common, varying if smallest else [], varying if largest else [])
    low = np.log(line.low * deviation[varying].numpy())
    high = np.log(FLATTEST * spread[varying].numpy())
    logs = _one_each(loo, varying, common, (low, high))
    common[varying] = torch.from_numpy(np.exp(logs))
    lowest, highest = compress(varying, logs < low + 1e-6), compress(varying, logs > high - 1e-6)
    return Choice(common, list(lowest), list(highest))


def _spreads(loo: LeaveOneOut) -> tuple[Tensor, Tensor]:
    """The range and the standard deviation of each input."""
    keys, weights = loo.samples.keys, loo.samples.weights / loo.samples.weights.sum()
    deviation = (weights @ (keys - weights @ keys).square()).sqrt()
    return keys.amax(0) - keys.amin(0), deviation


class _LineSearch:
    """The error as a function of a common factor of the bandwidths `unit` of all inputs that vary."""

    def __init__(self, loo: LeaveOneOut, unit: Float[Tensor, " d"], varying: list[int]) -> None:
        self.loo, self.unit, self.varying = loo, unit, varying
        self.many = len(loo.samples.single) > (MANY if len(varying) == 1 else MANY_PAIRS)
        self.low, self.range = self._limits()
        self.high = self.range * FLATTEST
        self.by_slope = loo.kernel == "gaussian" and not (loo.degree and len(loo.samples.single) > FEW)
        self.slopes: dict[float, float] = {}

    def _limits(self) -> tuple[float, float]:
        """The smallest factor, from the distances between neighbours, and the range of the inputs."""
        keys = self.loo.samples.keys / self.unit
        spread = float((keys.amax(0) - keys.amin(0)).max())
        if len(self.varying) == 1:
            gaps = keys[:, self.varying[0]].sort().values.diff()
            gaps = gaps[gaps > 0]
            # among many samples, some are nearly equal
            least = gaps.kthvalue(len(gaps) // 20 + 1).values if len(gaps) > FEW else gaps.min()
        else:
            some = keys[:: -(-len(keys) // MANY_PAIRS)]
            far = torch.cdist(some, some, compute_mode="donot_use_mm_for_euclid_dist")  # equal ones give 0
            least = far[far > 0].min() if bool((far > 0).any()) else far.new_tensor(spread)
        return float(least) * SMALLEST.get(self.loo.kernel, 1.0), spread

    def bandwidth(self, factor: float) -> Tensor:
        """The bandwidths for a factor."""
        result = self.unit.clone()
        result[self.varying] *= factor
        return result

    def error(self, factor: float) -> float:
        """The error for a factor."""
        return self.loo.error(self.bandwidth(factor))

    def slope(self, log: float) -> float:
        """The derivative of the error with respect to the factor's logarithm."""
        if log not in self.slopes:
            slopes = self.loo.gradient(self.bandwidth(float(np.exp(log))))[1]
            self.slopes[log] = float(slopes[self.varying].sum())
        return self.slopes[log]

    def search(self) -> tuple[float, bool, bool]:
        """The best factor, and whether it is the smallest or the largest one."""
        if not self.many:
            return self._on_grid()
        pilot = self.loo.sampled(PILOT if len(self.varying) == 1 else MANY_PAIRS)
        line = _LineSearch(pilot, self.unit, self.varying)
        start, smallest, largest = line.search()
        if smallest or largest:
            return start, smallest, largest
        start *= self.loo.optimal_factor(pilot)
        return (self._root_from(start) if self.by_slope else self._minimum_from(start)), False, False

    def _on_grid(self) -> tuple[float, bool, bool]:
        wide = 4 * self.range
        ratio = RATIO if len(self.loo.samples.single) <= FEW else FAR_RATIO  # the curve of many is smoother
        steps = max(int(np.log(wide / self.low) / np.log(ratio)), 2)
        grid = np.append(np.geomspace(self.low, wide, steps), np.geomspace(wide, self.high, 8)[1:])
        errors = np.array([self.error(factor) for factor in grid])
        if errors.max() - errors.min() <= 1e-9 * errors.max():  # no factor makes a difference
            return self.range, False, False
        found = []
        for index in _minima(errors):
            found.append((errors[index], grid[index]))
            around = slice(max(index - 1, 0), index + 2)
            if errors[index] - errors.min() > DEEPEST * (errors[around].max() - errors[index]):
                continue
            best = self._between(*grid[around][[0, -1]])
            if (error := self.error(best)) < errors[index] - SAME * errors.max():  # not on a plateau
                found.append((error, best))
        same = min(error for error, _ in found) + SAME * errors.max()
        factor = max(factor for error, factor in found if error <= same)
        as_good = same * (1 + 1e-6)
        return float(factor), bool(errors[0] <= as_good), bool(errors[-1] <= as_good)

    def _between(self, low: float, high: float) -> float:
        """The factor between two others that minimises the error."""
        precision = PRECISION if self.many else 1e-9
        ends = float(np.log(low)), float(np.log(high))
        if self.by_slope and self.slope(ends[0]) < 0 < self.slope(ends[1]):
            return float(np.exp(brentq(self.slope, *ends, xtol=precision)))
        found = minimize_scalar(
            lambda log: self.error(float(np.exp(log))),
            bounds=ends,
            method="bounded",
            options={"xatol": precision},
        )
        return float(f"{np.exp(found.x):.4g}")  # further digits would be rounding errors

    def _root_from(self, start: float) -> float:
        """The minimum near a factor: step downhill until the slope changes its sign, then find its root."""
        low = high = float(np.log(start))
        turn = float(np.log(STEP)) * (-1 if self.slope(low) > 0 else 1)
        while np.log(self.low) < low and high < np.log(self.high):
            low, high = (low + turn, low) if turn < 0 else (high, high + turn)
            if self.slope(low) <= 0 <= self.slope(high):
                return float(np.exp(brentq(self.slope, low, high, xtol=PRECISION)))
        return float(np.exp(low if turn < 0 else high))

    def _minimum_from(self, start: float) -> float:
        """The minimum near a factor: step downhill until the error rises again, then use golden sections."""
        errors = {steps: self.error(start * STEP**steps) for steps in (-1, 0, 1)}
        best = min(errors, key=lambda steps: errors[steps])
        while best in (min(errors), max(errors)) and self.low < start * STEP**best < self.high:
            new = best + (1 if best == max(errors) else -1)
            errors[new] = self.error(start * STEP**new)
            best = min(errors, key=lambda steps: errors[steps])
        return self._between(start * STEP ** (best - 1), start * STEP ** (best + 1))


def _minima(errors: Array) -> list[int]:
    """The indices of the lowest local minima, lowest first; for a plateau, its last index."""
    errors = np.round(errors / errors.max() / SAME) * SAME
    padded = np.concatenate([[np.inf], errors, [np.inf]])
    indices = np.flatnonzero((errors <= padded[:-2]) & (errors < padded[2:]))
    return [int(index) for index in indices[np.argsort(errors[indices], kind="stable")][:MINIMA]]


def _one_each(loo: LeaveOneOut, varying: list[int], common: Tensor, limits: tuple[Array, Array]) -> Array:
    """The logarithms of the best bandwidths found for the inputs that vary."""
    start = np.clip(common[varying].log().numpy(), *limits)
    starts = [start]
    if len(loo.samples.single) > MANY_PAIRS:
        pilot = loo.sampled(MANY_PAIRS)
        found = _one_each(pilot, varying, common / loo.optimal_factor(pilot), limits)
        starts = [np.clip(found + np.log(loo.optimal_factor(pilot)), *limits)]
    else:
        starts.append(limits[1] - np.log(FLATTEST / 3))
    objective = _Objective(loo, varying)
    improve = _by_gradient if loo.kernel == "gaussian" else _by_coordinates
    return min((improve(objective, start, limits) for start in starts), key=lambda one: one[0])[1]


class _Objective:
    """The error as a function of the logarithms of the bandwidths of all inputs that vary."""

    def __init__(self, loo: LeaveOneOut, varying: list[int]) -> None:
        self.loo, self.varying = loo, varying

    def _bandwidth(self, logs: Array) -> Tensor:
        result = torch.ones_like(self.loo.samples.keys[0])
        result[self.varying] = torch.from_numpy(np.exp(logs))
        return result

    def error(self, logs: Array) -> float:
        """Only the error."""
        return self.loo.error(self._bandwidth(logs))

    def gradient(self, logs: Array) -> tuple[float, Array]:
        """The error and its gradient."""
        error, slopes = self.loo.gradient(self._bandwidth(logs))
        return error, slopes[self.varying].numpy()


def _by_gradient(objective: _Objective, start: Array, limits: tuple[Array, Array]) -> tuple[float, Array]:
    scale = objective.gradient(start)[0] or 1.0  # L-BFGS-B stops at an absolute size of the gradient

    def scaled(x: Array) -> tuple[float, Array]:
        error, slopes = objective.gradient(x)
        return error / scale, slopes / scale

    options = {"maxiter": 200, "ftol": 1e-12, "gtol": 1e-8}
    bounds = list(zip(*limits, strict=True))
    found = minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun * scale), found.x


def _by_coordinates(objective: _Objective, start: Array, limits: tuple[Array, Array]) -> tuple[float, Array]:
    """Golden sections for one input after the other, in two rounds, the second with narrower brackets."""
    best, error = start, objective.error(start)
    for reach in (np.log(6.0), np.log(2.0)):
        for coordinate, (low, high) in enumerate(zip(*limits, strict=True)):

            def along(log: float, best: Array = best, coordinate: int = coordinate) -> float:
                return objective.error(np.where(np.arange(len(best)) == coordinate, log, best))

            ends = max(best[coordinate] - reach, low), min(best[coordinate] + reach, high)
            candidates = [high]
            if ends[0] < ends[1]:
                found = minimize_scalar(along, bounds=ends, method="bounded", options={"xatol": 1e-4})
                candidates.append(found.x)
            for candidate in candidates:
                if (value := along(candidate)) < error:
                    error, best = value, np.where(np.arange(len(best)) == coordinate, candidate, best)
    return error, best
