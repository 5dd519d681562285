"""Gaussian kernel regression of any size: exact in O(n) memory; for one feature, in O(n) time within a bound.

    f(q_i) = sum_j K_ij v_j / sum_j K_ij,   K_ij = exp(-|(q_i - k_j) w|^2 / 2),   j != index_i

(Nadaraya 1964, Watson 1964). `gaussian_reference` is the plain formula.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from attention_lab.attention.fast.gaussian.cells import cell_moments
from attention_lab.attention.fast.gaussian.pairs import (
    SLIGHT,
    Problem,
    far_moments,
    pair_gradients,
    pair_moments,
)
from attention_lab.attention.fast.gaussian.sorted_keys import near_moments, sorted_moments
from attention_lab.attention.torch_state import between_graphs, needs_plain_operations, without_autocast

CELLS_FROM = 2**20
"""The smallest number of pairs for which setting up cells pays off."""
SORTING_FROM = 2**18
"""The smallest number of pairs for which sorting pays off."""
ALL_KEYS_UP_TO = 2**22
"""Up to this many pairs, rows of little mass that neighbours do not settle are summed over all keys."""


def gaussian_reference(
    query: Float[Tensor, "Q d"],
    keys: Float[Tensor, "K d"],
    values: Float[Tensor, "K o"],
    width: Float[Tensor, " w"],
    index: Int[Tensor, " Q"] | None = None,
    weights: Float[Tensor, " K"] | None = None,
) -> Float[Tensor, "Q o"]:
    """The formula over all pairs at once, `[Q, K, d]`; the reference for `gaussian_regression`."""
    scores = ((query[:, None] - keys) * width).square().sum(-1) * -0.5
    if weights is not None:
        scores = scores + weights.log()
    if index is not None:
        own = torch.arange(len(keys), device=keys.device) == index[:, None]
        scores = scores.masked_fill(own, -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0) @ values


def gaussian_regression(
    query: Float[Tensor, "Q d"],
    keys: Float[Tensor, "K d"],
    values: Float[Tensor, "K o"],
    width: Float[Tensor, " w"],
    index: Int[Tensor, " Q"] | None = None,
    tolerance: float | None = None,
    weights: Float[Tensor, " K"] | None = None,
) -> Float[Tensor, "Q o"]:
    """Gaussian kernel regression, with first derivatives w.r.t. every input that requires them.

    Memory is O(Q + K) throughout. The method depends on the size. A single feature with a tolerance uses
    cells, in O(Q + K) time (see `cells` for the bound). A single feature without a tolerance uses all keys
    within the reach of the kernel, exactly. Several features, few pairs, or derivatives w.r.t. keys,
    queries or values use all pairs, in chunks. A row whose kernels have almost no mass is recomputed
    relative to its nearest key: if all kernels underflow, the nearest key gets all the weight. Under the
    transforms of `torch.func` and in forward-mode differentiation, the plain formula takes O(Q K) memory.

    Args:
        query: points at which f is evaluated.
        keys: points of the samples.
        values: values of the samples.
        width: w, one number or one for each feature.
        index: the sample that each query leaves out, -1 for none; None if no query leaves one out.
        tolerance: the largest error of a prediction, and of its derivative w.r.t. log w, relative to the
            largest value (measured from the mean of the values); None for rounding errors only.
        weights: of the samples, positive and at most 1, without derivatives; None: all are 1.

    Returns:
        Predictions in the values' dtype; zero, with zero gradient, where no sample is left.
    """
    if index is None:
        index = torch.full([len(query)], -1, device=query.device)
    dtype = values.dtype
    working = torch.promote_types(torch.promote_types(keys.dtype, dtype), torch.float32)
    # Sums over many samples overflow half precision.
    with without_autocast(keys):
        query, keys, values = (x.to(working) for x in (query, keys, values))
        if needs_plain_operations():
            return gaussian_reference(query, keys, values, width, index, weights).to(dtype)
        context = _regression(query, keys, values, width, index, tolerance, weights)
    return context.to(dtype)


@between_graphs  # it branches on values
def _regression(*inputs: Tensor | float | None) -> Tensor:
    context: Tensor = _Regression.apply(*inputs)  # type: ignore[no-untyped-call]
    return context


class _Regression(torch.autograd.Function):
    """`gaussian_regression` of tensors of one dtype."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        width: Tensor,
        index: Tensor,
        tolerance: float | None,
        weights: Tensor | None,
    ) -> Tensor:
        """The context; saves what the gradients need."""
        by_query, by_keys, by_values, by_width = ctx.needs_input_grad[:4]
        ctx.one_slope = by_width and (len(width) == 1 or keys.shape[1] == 1)
        ctx.all_pairs = by_query or by_keys or by_values or (by_width and not ctx.one_slope)
        problem, mean = _centred(query, keys, values, width, index, weights, slopes=ctx.one_slope)
        moments, top = gaussian_moments(problem, None if ctx.all_pairs else tolerance)

        mass = moments[:, 0, :1]
        norm = top + mass[:, 0].log2()
        alive = norm[:, None] != -torch.inf
        mass = torch.where(alive, mass, 1.0)
        context = moments[:, 0, 1:] / mass
        if ctx.one_slope:  # the derivative w.r.t. log w
            change = moments[:, 1, 1:] - context * moments[:, 1, :1]
            ctx.slope = (change / mass * (2 * math.log(2))).to(values.dtype)
        ctx.norm, ctx.weights = norm, weights
        ctx.save_for_backward(query, keys, values, width, index, context if ctx.all_pairs else None)
        return torch.where(alive, context + mean, 0.0).to(values.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients w.r.t. queries, keys, values and width."""
        query, keys, values, width, index, context = ctx.saved_tensors
        by_query, by_keys, by_values, by_width = ctx.needs_input_grad[:4]
        result: list[Tensor | None] = [None, None, None, None]
        if ctx.all_pairs:
            by_rates = by_width and not ctx.one_slope
            problem, _ = _centred(query, keys, values, width, index, ctx.weights, slopes=False)
            result = _pair_gradients(
                problem, context, ctx.norm, upstream, (by_query, by_keys, by_values, by_rates)
            )
            if result[3] is not None:
                result[3] = result[3] * width * math.log2(math.e)
        if ctx.one_slope:
            total = (upstream * ctx.slope).double().sum().reshape(1)
            result[3] = torch.where(width == 0, 0.0, total / width)  # 0 at w = 0: the function is even
        sources = (query, keys, values, width)
        gradients = [None if x is None else x.to(y.dtype) for x, y in zip(result, sources, strict=True)]
        return *gradients, None, None, None


def _centred(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    width: Tensor,
    index: Tensor,
    weights: Tensor | None,
    *,
    slopes: bool,
) -> tuple[Problem, Tensor]:
    """The problem with centred values, and their mean in float64."""
    rates = width.detach().double().expand(keys.shape[1]).square() * (0.5 * math.log2(math.e))
    mean = values.double().mean(0) if len(values) else values.new_zeros(values.shape[1], dtype=torch.float64)
    centred = (values.double() - mean).to(values.dtype)
    weights = None if weights is None else weights.to(values.dtype)
    return Problem(query, keys, centred, rates, index, slopes, weights), mean


def gaussian_moments(problem: Problem, tolerance: float | None) -> tuple[Tensor, Tensor]:
    """The moments `[Q, m, 1 + o]` of all queries by the fastest method, each row divided by `2^top`.

    Args:
        problem: queries, keys and centred values; `linear` only with one feature.
        tolerance: as for `gaussian_regression`.

    Returns:
        The moments, and `top` `[Q]`; it is 0 except where the kernels would underflow, and -inf where a row
        has no key.
    """
    pairs = len(problem.query) * len(problem.keys)
    if not pairs:
        return problem.empty(), problem.rates.new_full((len(problem.query),), -torch.inf)
    line = len(problem.rates) == 1 and all(
        bool(x.isfinite().all()) for x in (problem.query, problem.keys, problem.rates)
    )
    found = None
    if line and tolerance is not None and pairs >= CELLS_FROM:
        found = cell_moments(problem, tolerance)
    if found is not None and tolerance is not None:
        moments, bound = found
        counts = tolerance >= 4 * bound * sensitivity(moments, problem.reach)
    elif problem.linear:
        return near_moments(problem)
    else:
        moments = sorted_moments(problem) if line and pairs >= SORTING_FROM else pair_moments(problem)
        counts = moments[:, 0, 0] >= SLIGHT
    top = torch.zeros_like(moments[:, 0, 0])
    slight = (~counts).nonzero()[:, 0]
    if len(slight):
        rows = problem.rows(slight)
        nearby = line and (problem.linear or len(slight) * len(problem.keys) >= SORTING_FROM)
        found = near_moments(rows, ALL_KEYS_UP_TO) if nearby else far_moments(rows)
        moments[slight], top[slight] = found
    return moments, top


def sensitivity(moments: Float[Tensor, "Q m c"], reach: float) -> Float[Tensor, " Q"]:
    """How much an error of the sums is amplified in the prediction: by `1 / sum K`, or more for a local line.

    The line through samples at u = w (k - q) with mean m and variance s^2, all weighted by the kernel, has
    the value `mean(v) - m cov(u, v) / s^2` at the query. An error e of each mean causes an error of at most
    `2 e max|v| (1 + |m|) (1 + 1 / s^2)^(3/2)`. If all |u| are at most `reach`, u is measured in units of
    `reach`, in which the errors of the means are just as small.
    """
    mass = moments[:, 0, 0].clamp_min(0.0)
    if moments.shape[1] < 3:
        return 1 / mass
    mean, square = moments[:, 1, 0] / mass / reach, moments[:, 2, 0] / mass / reach**2
    variance = (square - mean.square()).clamp_min(0.0)
    factor: Tensor = 2 * (1 + mean.abs()) * (1 + 1 / variance) ** 1.5 / mass
    return factor.nan_to_num(nan=torch.inf, posinf=torch.inf)


def _pair_gradients(
    problem: Problem, context: Tensor, norm: Tensor, upstream: Tensor, needs: tuple[bool, bool, bool, bool]
) -> list[Tensor | None]:
    """`pair_gradients`, in float64 for rows of little mass, because their exponents are large."""
    slight = norm < math.log2(SLIGHT)
    total: list[Tensor | None] = [None] * 4
    for rows, double in (((~slight).nonzero()[:, 0], False), (slight.nonzero()[:, 0], True)):
        some = problem.rows(rows)
        some = some.doubled() if double else some
        dtype = some.keys.dtype
        given = context[rows].to(dtype), norm[rows].to(dtype), upstream[rows].to(dtype)
        parts = pair_gradients(some, *given, needs)
        if parts[0] is not None:
            whole = torch.zeros_like(problem.query, dtype=torch.float64)
            parts[0] = whole.index_copy_(0, rows, parts[0])
        total = [x if y is None else y + x for x, y in zip(parts, total, strict=True)]  # type: ignore[operator]
    return total
