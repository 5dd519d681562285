"""Laplacian kernel sums over one input, exactly and in O(n), by recursion over the sorted samples.

With `u = (x_j - x) / h`, the sums `S_m(x_i) = sum_(j <= i) exp(-|u|) u^m c_j` follow from those at the
previous sample, `S_0(x_i) = c_i + exp(-d) S_0(x_(i-1))` with `d = (x_i - x_(i-1)) / h`, and likewise from the
right (Langrene & Warin, "Fast and stable multivariate kernel density estimation by fast sum updating",
1712.00993). All factors are at most 1, so no digits are lost, and the sums are kept relative to the nearest
sample, so none underflows.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

VAST = 1e9
"""Larger distances, in bandwidths, are cut to this: the kernel is 0 there, and squares do not overflow."""
FARTHEST = 1e300
"""The distances to the nearest samples, which are compared, are only cut to this, so that they are finite."""


def laplacian_moments(
    line: Float[Tensor, " K"],
    columns: Float[Tensor, "K c"],
    query: Float[Tensor, " Q"],
    own: Int[Tensor, " Q"] | None,
    bandwidth: float,
    orders: int,
) -> tuple[Float[Tensor, "Q m c"], Float[Tensor, " Q"]]:
    """The sums of `exp(-|u|) u^m` with each column for m below `orders`, and a power of two for each row.

    The arguments are those of `compact_moments`. Returns the sums divided by `2^top`, and `top`.
    """
    if own is None:
        before = torch.searchsorted(line, query, right=True) - 1
        after = before + 1
    else:
        before, after = own - 1, own + 1
    steps = (line.diff(prepend=line[:1]) / bandwidth).clamp_max(VAST)
    left = _scan(steps, columns.mT, orders)
    steps = steps[1:].flip(0)
    steps = torch.cat([steps.new_zeros(1), steps])
    right = _scan(steps, columns.mT.flip(1), orders).flip(-1)
    odd = torch.tensor([1.0, -1.0, 1.0], dtype=line.dtype)[:orders]
    right *= odd[:, None, None]

    far = torch.full_like(query, torch.inf)
    has_left, has_right = before >= 0, after < len(line)
    before, after = before.clamp_min(0), after.clamp_max(len(line) - 1)
    gap_left = torch.where(has_left, ((query - line[before]) / bandwidth).clamp_max(FARTHEST), far)
    gap_right = torch.where(has_right, ((line[after] - query) / bandwidth).clamp_max(FARTHEST), far)
    nearest = torch.minimum(gap_left, gap_right)
    result = query.new_zeros(len(query), orders, columns.shape[1])
    for sums, at, gap, sign in ((left, before, gap_left, -1.0), (right, after, gap_right, 1.0)):
        decay = torch.where(gap == torch.inf, 0.0, (nearest - gap).exp())
        shift = torch.where(gap == torch.inf, 0.0, gap.clamp_max(VAST) * sign)
        moved = _moved(sums[:, :, at], shift)
        for order in range(orders):
            result[:, order] += (moved[order] * decay).mT
    return result, -nearest * math.log2(math.e)


def _moved(sums: Float[Tensor, "m c *N"], shift: Tensor) -> list[Tensor]:
    """The moments about another point, from which every u is larger by `shift`; the kernels stay the same."""
    if len(sums) == 1:
        return [sums[0]]
    first = sums[1] + shift * sums[0]
    return [sums[0], first, sums[2] + shift * (sums[1] + first)]


def _scan(steps: Float[Tensor, " K"], columns: Float[Tensor, "c K"], orders: int) -> Float[Tensor, "m c K"]:
    """For each sample, the moments about it of all samples up to and including it.

    The samples are cut into runs of equal length; the recursion processes all runs at once, and the
    contribution of earlier runs is added afterwards.
    """
    keys = steps.shape[0]
    length = max(math.isqrt(keys), 1)
    runs = -(-keys // length)
    pad = runs * length - keys
    step = torch.nn.functional.pad(steps, (0, pad)).view(runs, length)
    start = step.cumsum(1)  # from the end of the run before
    result = steps.new_empty(length, orders, len(columns), runs)
    new = torch.nn.functional.pad(columns, (0, pad)).view(-1, runs, length).permute(2, 0, 1).contiguous()
    across, decays = step.mT.contiguous(), step.mT.neg().exp()
    state = steps.new_zeros(orders, len(columns), runs)
    for place in range(length):
        state = torch.stack(_moved(state, -across[place])) * decays[place]
        state[0] += new[place]
        result[place] = state
    ends = result[-1].permute(2, 0, 1)
    carried = torch.zeros_like(ends)
    totals, losses = start[:, -1], start[:, -1].neg().exp()
    for run in range(1, runs):
        moved = torch.stack(_moved(carried[run - 1][..., None], -totals[run - 1, None]))[..., 0]
        carried[run] = ends[run - 1] + moved * losses[run - 1]
    found = result.permute(1, 2, 3, 0).contiguous()  # [m, c, run, place]
    before = _moved(carried.permute(1, 2, 0)[..., None], -start)
    for sums, more in zip(found, before, strict=True):
        sums += more * start.neg().exp()
    return found.flatten(2)[..., :keys]
