"""Gaussian kernel sums over one feature by sorting: each query visits only nearby keys; exact."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.gaussian.pairs import (
    SLIGHT,
    Buffers,
    Problem,
    accumulate,
    at_once,
    chunks,
    exponents,
    far_moments,
    left_out,
    width_of,
    with_powers,
)

START = 16
"""Keys on either side that a row of little mass visits first."""


def sorted_moments(problem: Problem) -> Float[Tensor, "Q m c"]:
    """`pair_moments` of a single feature: a chunk of neighbouring queries visits the keys within reach.

    The omitted keys contribute less than 1e-8 to any sum that matters, in float64 less than 1e-16.
    """
    queries, keys = len(problem.query), len(problem.keys)
    order = problem.keys[:, 0].argsort()
    ordered, columns = problem.keys[order], problem.columns()[:, order]
    rows = problem.query[:, 0].argsort()
    some = problem.rows(rows)
    index = _own_places(some.own, order)

    double = problem.keys.dtype == torch.float64
    far = math.log2(max(keys, 1)) - math.log2(SLIGHT) + (54 if double else 27)
    reach = math.sqrt(far / float(problem.rates[0])) if float(problem.rates[0]) > 0 else math.inf
    size = max(min(256, queries // 16), 1)
    starts = torch.arange(0, queries, size, device=rows.device)
    ends = (starts + size).clamp_max(queries)
    line = ordered[:, 0].double()
    first = torch.searchsorted(line, some.query[starts, 0].double() - reach).tolist()
    last = torch.searchsorted(line, some.query[ends - 1, 0].double() + reach, right=True).tolist()

    result, buffers = problem.empty(), Buffers(problem.keys)
    for start, end, low, high in zip(starts.tolist(), ends.tolist(), first, last, strict=True):
        near = ordered[low:high]
        for piece in chunks(end - start, high - low, rows.device):
            part = slice(start + piece.start, start + piece.stop)
            window = some._replace(query=some.query[part], keys=near)
            out, spare = buffers.of(len(window.query), high - low)
            exponents(window, spare, out)
            hidden = left_out(index[part] - low, high - low)
            accumulate(problem, result[part], out, spare, columns[:, low:high], hidden)
    return torch.empty_like(result).index_copy_(0, rows, result)


def near_moments(
    problem: Problem, all_keys_up_to: int = 0
) -> tuple[Float[Tensor, "Q m c"], Float[Tensor, " Q"]]:
    """`far_moments` of a single feature: each row visits more and more neighbours until no other matters.

    A row is done when all remaining keys, even if each were as close as the closest of them, would have less
    than 1e-16 of its mass.

    Args:
        problem: queries, keys and values.
        all_keys_up_to: number of pairs up to which the rows that are not done after the first visit take all
            keys at once instead; not if `linear`.
    """
    problem = problem.doubled()
    keys, device = len(problem.keys), problem.keys.device
    line, order = problem.keys[:, 0].sort()
    columns, width = problem.columns().mT[order], width_of(problem)
    index = _own_places(problem.own, order)
    query, rate = problem.query[:, 0], problem.rates[0]
    middle = torch.searchsorted(line, query)

    result, tops = problem.empty(), torch.empty_like(query)
    active, size = torch.arange(len(query), device=device), START
    while len(active):
        if size > START and not problem.linear and len(active) * keys <= all_keys_up_to:
            result[active], tops[active] = far_moments(problem.rows(active))
            break
        steps = torch.arange(-size, size, device=device)
        waiting = []
        for start in range(0, len(active), rows := max(at_once(device) // (8 * size), 1)):
            some = active[start : start + rows]
            at = middle[some, None] + steps
            seen = at.clamp(0, keys - 1)
            out = (query[some, None] - line[seen]).square() * -rate
            beyond = [torch.where(at[:, side] == seen[:, side], out[:, side], -torch.inf) for side in (0, -1)]
            out[(at != seen) | (at == index[some, None])] = -torch.inf
            u = (line[seen] - query[some, None]) * width
            top, moments = _of_neighbours(out, u, columns[seen], problem)
            rest = torch.maximum(*beyond) + math.log2(keys)
            done = (rest <= top + moments[:, 0, 0].log2() - 54) | (size >= keys)
            result[some[done]], tops[some[done]] = moments[done], top[done]
            waiting.append(some[~done])
        active, size = torch.cat(waiting), size * 4
    return result, tops


def _own_places(own: Tensor, order: Tensor) -> Tensor:
    """The positions of the left-out keys in the sorted order, -1 for none."""
    keys = len(order)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(keys, device=order.device))
    return torch.where((own < 0) | (own >= keys), -1, place[own.clamp(0, keys - 1)])


def _of_neighbours(out: Tensor, u: Tensor, columns: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    """The largest of each row's exponents `[Q, n]`, and moments relative to it with columns `[Q, n, c]`."""
    top = out.amax(-1)
    log = (out - torch.where(top == -torch.inf, 0.0, top)[:, None]).clamp_min(-2000.0)
    return top, torch.stack(with_powers(log, u, problem), 1) @ columns
