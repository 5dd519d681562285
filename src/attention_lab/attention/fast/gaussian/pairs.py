"""Sums over all pairs of queries and keys under a Gaussian kernel, in chunks: nothing n x n is stored.

Exponents are in base 2: on a CPU `exp2` is three times as fast as `exp`, and `exp` is a hundred times slower
still below -87. A chunk stays in the cache, where a pass over it costs little.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 5 * 2**16
"""Pairs in memory at once: two such tensors fit in a CPU's cache. A GPU takes 64 times as many."""
SLIGHT = 1e-3
"""A row whose kernels sum to less is recomputed in float64, relative to its nearest key."""
NARROW = 3
"""Up to this many features, the differences themselves are cheaper than a matrix product."""


class Problem(NamedTuple):
    """Gaussian kernel regression, ready to be summed: `K_ij = 2^s_ij`, `s_ij = -sum_d r_d (q_id - k_jd)^2`.

    Attributes:
        query: `[Q, d]`.
        keys: `[K, d]`.
        values: `[K, o]`, relative to their mean.
        rates: r `[d]` in float64, `w^2 log2(e) / 2`.
        own: `[Q]`, the key that each query leaves out, -1 for none.
        slopes: whether to compute the sums with s as well, needed for the derivative w.r.t. the width.
        weights: of the keys `[K]`, positive and at most 1; None: all are 1.
        linear: whether to compute the sums with u and u^2 as well, `u = w (k - q)`, which local-linear
            regression needs. Only for a single feature, not with `slopes`, and not in `pair_moments`.
    """

    query: Float[Tensor, "Q d"]
    keys: Float[Tensor, "K d"]
    values: Float[Tensor, "K o"]
    rates: Float[Tensor, " d"]
    own: Int[Tensor, " Q"]
    slopes: bool
    weights: Float[Tensor, " K"] | None = None
    linear: bool = False

    def rows(self, chosen: Tensor | slice) -> "Problem":
        """The same problem for some of the queries."""
        return self._replace(query=self.query[chosen], own=self.own[chosen])

    def doubled(self) -> "Problem":
        """The same problem in float64."""
        weights = None if self.weights is None else self.weights.double()
        query, keys, values = self.query.double(), self.keys.double(), self.values.double()
        return self._replace(query=query, keys=keys, values=values, weights=weights)

    def columns(self) -> Float[Tensor, "c K"]:
        """The columns that the kernels are multiplied with: the weights, and the weighted values."""
        if self.weights is None:
            return torch.cat([torch.ones_like(self.values[:, :1]), self.values], -1).mT.contiguous()
        weights = self.weights[:, None]
        return torch.cat([weights, self.values * weights], -1).mT.contiguous()

    @property
    def orders(self) -> int:
        """How many moments of the kernel are computed."""
        return 3 if self.linear else 1 + self.slopes

    @property
    def reach(self) -> float:
        """The unit of u in the sums with u and u^2: the largest |u|, at most 1."""
        if not self.linear:
            return 1.0
        numbers = torch.cat([self.query[:, 0], self.keys[:, 0]])
        return min(1.0, max(float(numbers.max() - numbers.min()) * width_of(self), 1e-100))

    def empty(self) -> Float[Tensor, "Q m c"]:
        """Zeros for the moments `[Q, m, 1 + o]`: sums of K and K v, then of s K or u K and u^2 K."""
        shape = len(self.query), self.orders, 1 + self.values.shape[1]
        return torch.zeros(shape, dtype=torch.float64, device=self.keys.device)


def width_of(problem: Problem) -> float:
    """The width w of a problem of one feature."""
    return math.sqrt(2 * float(problem.rates[0]) / math.log2(math.e))


def with_powers(log: Tensor, u: Tensor, problem: Problem) -> list[Tensor]:
    """The kernel `K = 2^log`, and its products with log or with u and u^2, whichever the problem needs."""
    kernel = log.exp2()
    if problem.linear:
        return [kernel, kernel * u, kernel * u.square()]
    return [kernel, log * kernel] if problem.slopes else [kernel]


def exponents(problem: Problem, spare: Tensor, out: Tensor) -> None:
    """Write `s` of all pairs to `out` `[Q, K]`, with `spare` as scratch space: exact at any offset."""
    rates: list[float] = problem.rates.tolist()
    zero, largest = out.new_zeros(()), torch.finfo(out.dtype).max
    for d, rate in enumerate(rates):
        torch.sub(problem.query[:, d, None], problem.keys[:, d], out=spare)
        torch.addcmul(
            out if d else zero,
            spare,
            spare,
            value=-(min(rate, largest) if math.isfinite(rate) else rate),
            out=out,
        )


def at_once(device: torch.device) -> int:
    """Pairs in memory at once."""
    return CHUNK * (1 if device.type == "cpu" else 64)


def chunks(queries: int, keys: int, device: torch.device) -> Iterator[slice]:
    """Slices of the queries with about `at_once` pairs each."""
    size = max(at_once(device) // max(keys, 1), 1)
    yield from (slice(start, min(start + size, queries)) for start in range(0, queries, size))


class Buffers:
    """Two reusable scratch tensors: on a CPU, allocating new pages costs more than writing to them."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.both = like.new_empty(2, 0)

    def of(self, queries: int, keys: int) -> tuple[Tensor, Tensor]:
        """Both as `[queries, keys]`, uninitialised."""
        if self.both.shape[1] < queries * keys:
            self.both = self.like.new_empty(2, 0)  # free the old ones first
            self.both = self.like.new_empty(2, max(queries * keys, CHUNK))  # untouched pages cost nothing
        first, second = self.both[:, : queries * keys].view(2, queries, keys)
        return first, second


def pair_moments(problem: Problem) -> Float[Tensor, "Q m c"]:
    """The moments of every query over all keys. Left-out keys are skipped, not subtracted afterwards."""
    result = problem.empty()
    product = _product(problem)
    columns, buffers = problem.columns(), Buffers(problem.keys)
    for part in chunks(len(problem.query), len(problem.keys), problem.keys.device):
        some = problem.rows(part)
        out, spare = buffers.of(len(some.query), len(problem.keys))
        if product is None:
            exponents(some, spare, out)
        else:
            out.copy_(product[0][part] @ product[1])
        hidden = left_out(some.own, len(problem.keys))
        accumulate(problem, result[part], out, spare, columns, hidden)
    return result


def far_moments(problem: Problem) -> tuple[Float[Tensor, "Q m c"], Float[Tensor, " Q"]]:
    """The moments in float64 with `K = 2^(s - top)`, and `top`, the largest s of the row: nothing underflows.

    In a row without a key `top` is -inf and the moments are 0.
    """
    problem = problem.doubled()
    result, tops = problem.empty(), problem.query.new_empty(len(problem.query))
    columns, buffers = problem.columns(), Buffers(problem.keys)
    for part in chunks(len(problem.query), 4 * len(problem.keys), problem.keys.device):
        some = problem.rows(part)
        out, spare = buffers.of(len(some.query), len(problem.keys))
        exponents(some, spare, out)
        out[left_out(some.own, len(problem.keys))] = -torch.inf
        tops[part] = top = out.amax(-1) if out.shape[-1] else out.new_full(out.shape[:1], -torch.inf)
        out -= torch.where(top == -torch.inf, 0.0, top)[:, None]
        out.clamp_(min=-2000.0)  # the kernel is still 0, and 0 * inf would be NaN
        accumulate(problem, result[part], out, spare, columns, None)
    return result, tops


def pair_gradients(
    problem: Problem,
    context: Float[Tensor, "Q o"],
    norm: Float[Tensor, " Q"],
    upstream: Float[Tensor, "Q o"],
    needs: tuple[bool, bool, bool, bool],
) -> list[Tensor | None]:
    """Gradients of `sum(upstream * context)` w.r.t. queries, keys, values and rates; None where not needed.

    With `a_ij = 2^(s_ij - norm_i)` and `G_ij = a_ij g_i . (v_j - f_i)` they are
    `-2 ln 2 r_d sum_j G_ij (q_id - k_jd)`, the same with the opposite sign summed over i, `sum_i a_ij g_i`,
    and `-ln 2 sum_ij G_ij (q_id - k_jd)^2`.

    Args:
        problem: queries and keys.
        context: f, relative to the mean of the values.
        norm: the base-2 logarithm of each row's sum of kernels.
        upstream: g.
        needs: which of the four to compute.
    """
    sources = (problem.query, problem.keys, problem.values, problem.rates)
    totals = [
        torch.zeros_like(x, dtype=torch.float64) if need else None
        for x, need in zip(sources, needs, strict=True)
    ]
    by_query, by_keys, by_values, by_rates = totals
    buffers = Buffers(problem.keys)
    for part in chunks(len(problem.query), len(problem.keys), problem.keys.device):
        some = problem.rows(part)
        weights, spare = buffers.of(len(some.query), len(problem.keys))
        exponents(some, spare, weights)
        if problem.weights is not None:
            weights += problem.weights.log2()
        weights.sub_(norm[part, None]).clamp_(max=0.0).exp2_()  # a share is at most 1
        weights[left_out(some.own, len(problem.keys))] = 0
        given = upstream[part]
        if by_values is not None:
            by_values += weights.mT @ given
        if by_query is None and by_keys is None and by_rates is None:
            continue
        weights *= given @ problem.values.mT - (given * context[part]).sum(-1, keepdim=True)
        for d, rate in enumerate(problem.rates.tolist()):
            torch.sub(some.query[:, d, None], problem.keys[:, d], out=spare)
            if by_rates is not None:
                by_rates[d] -= math.log(2) * torch.einsum("qk,qk->q", weights, spare.square()).double().sum()
            spare *= weights
            if by_query is not None:
                by_query[part, d] = -2 * math.log(2) * rate * spare.sum(1).double()
            if by_keys is not None:
                by_keys[:, d] += 2 * math.log(2) * rate * spare.sum(0).double()
    return totals


def accumulate(
    problem: Problem,
    result: Tensor,
    out: Tensor,
    spare: Tensor,
    columns: Tensor,
    hidden: tuple[Tensor, Tensor] | None,
) -> None:
    """Write the sums of `2^out`, and of `out 2^out`, with each column to `result` `[Q, m, 1 + o]`."""
    ones = problem.weights is None  # the first column
    torch.exp2(out, out=spare)
    if hidden is not None:
        spare[hidden] = 0
    _sums(result[:, 0], spare, columns, ones)
    if result.shape[1] == 2:
        _sums(result[:, 1], spare.mul_(out), columns, ones)


def _sums(result: Tensor, kernel: Tensor, columns: Tensor, ones: bool) -> None:
    """Write the products of the kernel `[Q, K]` with each of the columns `[c, K]`."""
    if len(columns) == 2:  # sums and matrix-vector products use all cores
        result[:, 1] = torch.mv(kernel, columns[1])
        result[:, 0] = kernel.sum(-1) if ones else torch.mv(kernel, columns[0])
    else:  # wide, not tall: eight times as fast
        result.copy_((columns @ kernel.mT).mT)


def left_out(index: Tensor, keys: int) -> tuple[Tensor, Tensor]:
    """Row and column indices of the pairs that are left out."""
    rows = ((index >= 0) & (index < keys)).nonzero()[:, 0]
    return rows, index[rows]


def _product(problem: Problem) -> tuple[Tensor, Tensor] | None:
    """Factors `[Q, d + 2]`, `[d + 2, K]` whose product is s; None for few features, where it is slower.

    They are in float64, because the product has rounding errors of `eps * r |q| |k|`; None also if even these
    would be noticeable.
    """
    if len(problem.rates) <= NARROW or not problem.keys.numel():
        return None
    root = problem.rates.sqrt()
    centre = problem.keys.double().mean(0)
    query, keys = ((x.double() - centre) * root for x in (problem.query, problem.keys))
    squares = [x.square().sum(-1, keepdim=True) for x in (query, keys)]
    reach = torch.cat(squares).max() if len(query) else squares[1].max()
    if not bool(reach * torch.finfo(torch.float64).eps < 1e-9):
        return None
    ones = [torch.ones_like(x) for x in squares]
    return (
        torch.cat([2 * query, -squares[0], ones[0]], -1),
        torch.cat([keys, ones[1], -squares[1]], -1).mT.contiguous(),
    )
