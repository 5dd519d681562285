"""Gaussian kernel sums over one feature in O(n): Chebyshev expansions in cells, with a bound for every row.

The line is split into cells of width h, a power of two (so that a number's position in its cell is exact at
any offset and scale), with `delta = w h` in (1/2, 1]. In each cell the kernel is replaced by the
polynomial that interpolates it at p Chebyshev nodes, in the key and in the query. Each key then adds p
numbers to its cell, each query reads p numbers from its own cell, and only cells interact with cells
(Greengard & Strain, "The fast Gauss transform", 1991, with Chebyshev instead of Hermite polynomials).

**Error.** Interpolating `K(u) = exp(-u^2 / 2)` on an interval of length delta has an error of at most
`2 (delta / 4)^p / p! max |K^(p)|`, and `|K^(p)(u)| <= 1.0865 sqrt(p!) exp(-u^2 / 4)` (Cramer's inequality).
Both sides, with the Lebesgue constant `L <= 1 + 2 / pi log p` of the nodes, give for keys at a distance u

    |error of K| <= eps exp(-u^2 / 4),  eps = (1 + L) 2.173 (delta / 4)^p / sqrt(p!) + rounding,

and the error of `u^2 K = K'' + K` is at most `1 + sqrt((p + 1)(p + 2))` times that. The sum over the cells,
E, bounds the error of a row's sums; `2 E max|v| / sum K` bounds that of its prediction. Rows where this
exceeds the tolerance are computed by another method.

If a kernel is flat over the whole range of the data, all `|u|` are small, and so are `u^2 K` and its rounding
error, but not its interpolation error. A local line divides by `u^2 K`, so its p is chosen for errors
relative to the square of the largest |u|.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.gaussian.pairs import Problem, width_of, with_powers

MARGIN = 1e-5
"""The expansion is this much more accurate than the tolerance, because some rows have little mass."""
ROUNDING = 2e-14
"""Rounding error of the sums in float64; it falls off with the distance like the interpolation error."""
POINTS = 2**12
"""Points whose polynomials are in memory at once. A GPU takes 8 times as many."""


def error_of_a_kernel(
    p: int, delta: float, slopes: bool, reach: float = 1.0, rounding: float = ROUNDING
) -> float:
    """`eps` of the formula above, for `u^2 K` with `slopes`, relative to `reach^2`."""
    lebesgue = 1 + 2 / math.pi * math.log(p)
    interpolation = (1 + lebesgue) * 2.173 * (delta / 4) ** p / math.sqrt(math.factorial(p)) / reach**2
    return (interpolation + rounding) * (1 + math.sqrt((p + 1) * (p + 2)) if slopes else 1.0)


def nodes_for(delta: float, tolerance: float, slopes: bool, reach: float = 1.0) -> int | None:
    """The least p whose error is within `MARGIN * tolerance` or rounding; None if rounding is too coarse."""
    if tolerance < 1e4 * ROUNDING:
        return None
    wanted = max(MARGIN * tolerance, ROUNDING)
    return next(p for p in range(3, 30) if error_of_a_kernel(p, delta, slopes, reach, 0.0) <= wanted)


def cell_moments(problem: Problem, tolerance: float) -> tuple[Tensor, Tensor] | None:
    """The moments `[Q, m, 1 + o]` of queries over keys of one feature, in O(Q + K).

    Returns:
        The moments, and for each query `[Q]` the bound E on the error of its sums of kernels, of any kind
        (those of `u^m K` in units of `reach^m`); None if float64 is not precise enough for the tolerance or
        for the numbers.
    """
    query, keys = problem.query[:, 0].double(), problem.keys[:, 0].double()
    width = width_of(problem)
    low, high = float(torch.minimum(keys.min(), query.min())), float(torch.maximum(keys.max(), query.max()))
    # A kernel that is flat over the whole range of the data does not need ever larger cells.
    narrowest = max(width, 0.25 / max(high - low, 1e-290))
    if not narrowest * max(abs(low), abs(high)) < 2.0**50:
        return None
    h = 2.0 ** math.floor(-math.log2(narrowest))
    delta = width * h
    squares = problem.slopes or problem.linear
    reach = problem.reach
    p = nodes_for(delta, tolerance, squares, reach)
    if p is None:
        return None
    (key_cell, key_place), (query_cell, query_place) = _places(keys, h), _places(query, h)
    targets, query_at = _numbered(query_cell)
    cells, key_at = _numbered(key_cell)
    table = _expand(key_at, key_place, problem.columns().double(), len(cells), p)

    far = math.sqrt(2 * math.log(max(len(keys), 2) / ROUNDING))
    span = int(torch.maximum(cells[-1] - targets[0], targets[-1] - cells[0]).clamp_min(0))
    most = span if delta * span <= far else math.ceil(far / delta) + 1
    offsets = torch.arange(-most, most + 1, device=keys.device)
    translations = _translations(offsets, delta, p, problem)
    gap = (offsets.abs() - 1).clamp_min(0).double() * delta
    share = error_of_a_kernel(p, delta, squares, reach) * torch.exp(gap.square() * -0.25)

    moments, columns = problem.orders, 1 + problem.values.shape[1]
    local = table.new_empty(len(targets), moments, columns, p)
    bound = table.new_empty(len(targets))
    for start in range(0, len(targets), size := max(2**20 // (len(offsets) * p), 1)):
        part = slice(start, start + size)
        source = _find(cells, targets[part, None] - offsets)
        bound[part] = table[0, :, 0][source] @ share + ROUNDING  # the first coefficient sums the weights
        for column in range(columns):
            mapped = table[column][source].flatten(1) @ translations
            local[part, :, column] = mapped.view(-1, moments, p)

    result = problem.empty()
    for part in _pieces(len(query), query.device):
        read = local[query_at[part]].flatten(1, 2) @ _polynomials(query_place[part], p).unsqueeze(-1)
        result[part] = read.view(-1, moments, columns)
    _subtract_own(problem, result)
    return result, bound[query_at]


def _pieces(points: int, device: torch.device) -> Iterator[slice]:
    """Slices of `POINTS` points; larger ones on a GPU, where launching kernels takes longest."""
    size = POINTS * (1 if device.type == "cpu" else 8)
    yield from (slice(start, start + size) for start in range(0, points, size))


def _places(x: Float[Tensor, " N"], h: float) -> tuple[Tensor, Tensor]:
    """The cell of each number, and the number's position in it from -1 to 1."""
    scaled = x * (1 / h)
    cell = scaled.floor()
    return cell.long(), (scaled - cell) * 2 - 1


def _numbered(cell: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending cell numbers that include every `cell`, and the index of each `cell` among them."""
    low, high = int(cell.min()), int(cell.max())
    if high - low < max(4096, len(cell) // 4):
        return torch.arange(low, high + 1, device=cell.device), cell - low
    cells = torch.unique(cell)
    return cells, torch.searchsorted(cells, cell)


def _find(cells: Tensor, wanted: Tensor) -> Tensor:
    """The index of each wanted number in `cells`; `len(cells)` if it is missing."""
    index = torch.searchsorted(cells, wanted.contiguous())
    return torch.where(cells[index.clamp_max(len(cells) - 1)] == wanted, index, len(cells))


def _polynomials(place: Float[Tensor, " N"], p: int) -> Float[Tensor, "N p"]:
    """Chebyshev polynomials `T_0 ... T_(p-1)` at positions from -1 to 1."""
    result = place.new_empty(p, len(place))
    rows = result.unbind()
    rows[0].fill_(1)
    rows[1].copy_(place)
    twice = place * 2
    for j in range(2, p):
        torch.mul(twice, rows[j - 1], out=rows[j]).sub_(rows[j - 2])
    return result.mT.contiguous()


def _expand(at: Tensor, place: Tensor, columns: Tensor, cells: int, p: int) -> Float[Tensor, "c cells p"]:
    """Sums of the polynomials over the keys of each cell, multiplied with each column.

    One empty cell is appended.
    """
    table = place.new_zeros(len(columns), cells + 1, p)
    for part in _pieces(len(at), at.device):
        polynomials = _polynomials(place[part], p)
        for sums, column in zip(table, columns, strict=True):
            sums.index_add_(0, at[part], polynomials * column[part, None])
    return table


def _translations(offsets: Tensor, delta: float, p: int, problem: Problem) -> Float[Tensor, "Op mp"]:
    """Maps from the sums of a key cell to the coefficients of the query cell `offset` away, by moment."""
    order = torch.arange(p, device=offsets.device, dtype=torch.float64)
    node = torch.cos((order + 0.5) * (math.pi / p))
    interpolate = _polynomials(node, p) * (2 / p)  # coefficients of the polynomial through p values
    interpolate[:, 0] /= 2
    u = (offsets.double()[:, None, None] + (node - node[:, None]) / 2) * delta  # [offset, key, query]
    log = u.square() * (-0.5 * math.log2(math.e))
    mapped = [interpolate.mT @ kernel @ interpolate for kernel in with_powers(log, -u, problem)]
    return torch.cat(mapped, -1).flatten(0, 1)


def _subtract_own(problem: Problem, result: Tensor) -> None:
    """Subtract the left-out keys from the sums, in place."""
    every = len(problem.own) == len(problem.keys) and torch.equal(problem.query, problem.keys)
    if every and torch.equal(problem.own, torch.arange(len(problem.keys), device=problem.keys.device)):
        result[:, 0] -= problem.columns().double().mT  # where a query is its own key, K = 1 and u = 0
        return
    rows = ((problem.own >= 0) & (problem.own < len(problem.keys))).nonzero()[:, 0]
    chosen = problem.own[rows]
    log = (problem.query[rows, 0].double() - problem.keys[chosen, 0].double()).square() * -problem.rates[0]
    u = (problem.keys[chosen, 0].double() - problem.query[rows, 0].double()) * width_of(problem)
    columns = problem.columns()[:, chosen].double().mT
    own = torch.stack([kernel[:, None] * columns for kernel in with_powers(log, u, problem)], 1)
    if len(rows) == len(result):
        result -= own
    else:
        result.index_add_(0, rows, own, alpha=-1)
