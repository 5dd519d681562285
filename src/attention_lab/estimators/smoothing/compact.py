"""Sums of compact polynomial kernels over one input, exactly and in O(n), by fast sum updating.

Inside its support a kernel such as `1 - u^2` is a polynomial in `u = (x_j - x) / h`, so its sums follow
from the moments `sum_j x_j^r c_j` of the samples within reach, which are differences of prefix sums over the
sorted samples (Langrene & Warin, "Fast and stable multivariate kernel density estimation by fast sum
updating", 1712.00993). Two things preserve precision: moments are taken about the centre of a cell of width
h (a kernel overlaps three cells), and prefix sums are compensated. Rows whose sums are nevertheless small
compared with their terms are summed directly.
"""

import math
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.attention.fast.gaussian.regression import sensitivity
from attention_lab.estimators.smoothing.prefix_sums import BLOCK, places, prefix_sums

ROUNDING = 1e-15
"""The rounding error of a sum of terms of size 1, relative to their number and that of a block."""
ACCURATE = 1e-9
"""The largest rounding error of a prediction, relative to the largest value."""
ROWS = 2**14
"""Queries processed at a time, so that their intermediate results stay in the cache."""
TERMS = 2**20
"""Terms in memory at once, where rows are summed directly."""


class Shape(NamedTuple):
    """The kernel `(1 - |u|^root)^exponent` for |u| <= 1."""

    root: int
    exponent: int

    def squared(self) -> "Shape":
        """The square of the kernel."""
        return Shape(self.root, 2 * self.exponent)

    def polynomial(self) -> list[float]:
        """Its coefficients in ascending powers of |u|."""
        result = [0.0] * (self.root * self.exponent + 1)
        for power in range(self.exponent + 1):
            result[self.root * power] = float(math.comb(self.exponent, power) * (-1) ** power)
        return result


SHAPES = {"boxcar": Shape(1, 0), "epanechnikov": Shape(2, 1), "tricube": Shape(3, 3)}
"""The compact kernels."""


def compact_moments(
    line: Float[Tensor, " K"],
    columns: Float[Tensor, "K c"],
    query: Float[Tensor, " Q"],
    own: Int[Tensor, " Q"] | None,
    bandwidth: float,
    shape: Shape,
    orders: int,
    accurate: float = ACCURATE,
) -> Float[Tensor, "Q m c"]:
    """Sums of `K(u) u^m` with each column, for m below `orders`.

    A query whose kernel reaches no sample takes the nearest samples instead, with a kernel of 1 and |u| = 1.

    Args:
        line: the inputs of the samples, ascending.
        columns: to be summed; the first are weights above 0 and at most 1.
        query: points at which to sum, best ascending.
        own: the sample that each query leaves out, which lies at the query.
        bandwidth: h.
        shape: the kernel.
        orders: 1 or 3.
        accurate: rows whose error may exceed this, relative to the largest value, are summed directly.
    """
    result = query.new_zeros(len(query), orders, columns.shape[1])
    if not len(query):
        return result
    cells, terms = _Cells(line, query, bandwidth), torch.zeros_like(query)
    direct = torch.ones_like(query, dtype=torch.bool)
    if cells.are_exact:
        _add_windows(result, terms, cells, columns, shape)
        if own is not None:
            result[:, 0] -= columns[own]
        rounding = (terms + BLOCK) * ROUNDING * _amplification(shape, orders)
        direct = ~(rounding * sensitivity(result, cells.reach) <= accurate)  # also where it is NaN
    rows = direct.nonzero()[:, 0]
    if len(rows):
        mine = None if own is None else own[rows]
        window = cells.low[rows], cells.high[rows]
        result[rows] = _sum_directly(line, columns, query[rows], mine, window, bandwidth, shape, orders)
        lost = rows[result[rows, 0, 0] <= 0]
        if len(lost):
            mine = None if own is None else own[lost]
            result[lost] = _nearest_sums(line, columns, query[lost], mine, orders)
    return result


class _Cells:
    """Cells a little wider than the bandwidth, so that a kernel reaches no further than the next cells.

    Attributes:
        place: position of each sample relative to the centre of its cell, in bandwidths.
        query: the same for each query.
        bounds: places in the line between which the queries' windows lie: the window's start, the start of
            the query's cell, the query itself, the end of its cell, the window's end.
        step: the width of a cell, in bandwidths.
        are_exact: whether positions in a cell keep all digits of the samples.
        reach: the largest |u|, at most 1. If it is small, all samples are near the centre of one cell.
    """

    def __init__(self, line: Tensor, query: Tensor, bandwidth: float) -> None:
        mantissa, exponent = math.frexp(bandwidth)
        width = math.ldexp(math.ceil(mantissa * 2**20) + 1, exponent - 20)  # its multiples are exact
        far = float(torch.cat([line[[0, -1]], query]).abs().max())
        self.are_exact = far / width < 2.0**30
        self.reach = min(1.0, max(2 * far / bandwidth, 1e-100))
        self.step = width / bandwidth
        self.low = torch.searchsorted(line, query - bandwidth)
        self.high = torch.searchsorted(line, query + bandwidth, right=True)
        if not self.are_exact:
            return
        cell, own = (line / width).round_(), (query / width).round_()
        self.place = (line - cell * width).div_(bandwidth)
        self.query = (query - own * width).div_(bandwidth)
        start = torch.maximum(torch.searchsorted(cell, own), self.low)
        end = torch.minimum(torch.searchsorted(cell, own, right=True), self.high)
        self.bounds = [self.low, start, torch.searchsorted(line, query), end, self.high]


def _add_windows(result: Tensor, terms: Tensor, cells: _Cells, columns: Tensor, shape: Shape) -> None:
    """Add the sums over each query's window to `result`, and the weights in it to `terms`, by moments."""
    orders = result.shape[1]
    if shape.root % 2 and shape.exponent:  # the kernel has a kink, at the query
        bounds = cells.bounds
        sides = [(-1.0, -1), (0.0, -1), (0.0, 1), (1.0, 1)]  # cell, sign of u
    else:
        bounds = [cells.bounds[place] for place in (0, 1, 3, 4)]
        sides = [(-1.0, 1), (0.0, 1), (1.0, 1)]
    at = [places(one) for one in bounds]
    power = torch.ones_like(cells.place)
    for degree in range(shape.root * shape.exponent + orders):
        if degree:
            power *= cells.place
        for number, column in enumerate(columns.unbind(1)):
            sums = prefix_sums(power * column)
            for first in range(0, len(terms), ROWS):
                part = slice(first, first + ROWS)
                some = [one.rows(part) for one in at]
                for (start, end), (cell, sign) in zip(pairwise(some), sides, strict=True):
                    found = sums.between(start, end)
                    if degree == number == 0:
                        terms[part] += found
                    offset = cell * cells.step - cells.query[part]
                    for order in range(orders):
                        factors = _factors(shape, order, degree, sign)
                        if factors:
                            result[part, order, number] += found * _horner(factors, offset)


@cache
def _factors(shape: Shape, order: int, degree: int, sign: int) -> tuple[float, ...]:
    """Factor of `sum t^degree c` in `sum K(t + o) (t + o)^order c`, as coefficients of a polynomial in o."""
    polynomial = shape.polynomial()
    result = [0.0] * max(len(polynomial) + order - degree, 0)
    for power, coefficient in enumerate(polynomial):
        if power + order >= degree:
            factor = math.comb(power + order, degree) * coefficient
            result[power + order - degree] = factor * (sign if power % 2 else 1)
    return tuple(result)


def _horner(factors: tuple[float, ...], x: Tensor) -> Tensor | float:
    """The polynomial with these coefficients, in ascending powers."""
    result: Tensor | float = factors[-1]
    for factor in factors[-2::-1]:
        result = result * x
        if factor:
            result = result + factor
    return result


def _amplification(shape: Shape, orders: int) -> float:
    """How much larger the terms of the expansion can be than the sums of the kernel, given |t| + |o| <= 2."""
    return 2.0 ** (orders - 1) * (1 + 2.0**shape.root) ** shape.exponent


def _sum_directly(
    line: Tensor,
    columns: Tensor,
    query: Tensor,
    own: Tensor | None,
    window: tuple[Tensor, Tensor],
    bandwidth: float,
    shape: Shape,
    orders: int,
) -> Tensor:
    """The sums over each query's window, term by term; queries with windows of similar size run together."""
    low, high = window
    result = query.new_zeros(len(query), orders, columns.shape[1])
    by_size = (high - low).argsort(descending=True)
    start = 0
    while start < len(query):
        longest = max(int(high[by_size[start]] - low[by_size[start]]), 1)
        some = by_size[start : start + max(TERMS // longest, 1)]
        start += len(some)
        for first in range(0, longest, TERMS):
            at = low[some, None] + torch.arange(first, min(first + TERMS, longest))
            outside = at >= high[some, None]
            if own is not None:
                outside |= at == own[some, None]
            at.clamp_max_(len(line) - 1)
            u = (line[at] - query[some, None]) / bandwidth
            kernel = (1 - u.abs().clamp_max_(1.0) ** shape.root) ** shape.exponent
            kernel.masked_fill_(outside, 0.0)
            for order in range(orders):
                result[some, order] += ((kernel * u**order)[:, None] @ columns[at])[:, 0]
    return result


def _nearest_sums(
    line: Tensor, columns: Tensor, query: Tensor, own: Tensor | None, orders: int
) -> Float[Tensor, "Q m c"]:
    """The sums over the samples nearest to each query, on both sides if they are tied."""
    right = torch.searchsorted(line, query) if own is None else own + 1
    left = right - 1 if own is None else own - 1
    has_left, has_right = left >= 0, right < len(line)
    left, right = left.clamp_min(0), right.clamp_max(len(line) - 1)
    far = torch.full_like(query, torch.inf)
    gaps = torch.where(has_left, query - line[left], far), torch.where(has_right, line[right] - query, far)
    sums = [prefix_sums(column) for column in columns.unbind(1)]
    result = query.new_zeros(len(query), orders, columns.shape[1])
    for at, gap, u in zip((left, right), gaps, (-1.0, 1.0), strict=True):
        start = places(torch.searchsorted(line, line[at]))
        end = places(torch.searchsorted(line, line[at], right=True))
        chosen = (gap == torch.minimum(*gaps))[:, None]
        found = torch.where(chosen, torch.stack([one.between(start, end) for one in sums], 1), 0.0)
        for order in range(orders):
            result[:, order] += found * u**order
    return result
