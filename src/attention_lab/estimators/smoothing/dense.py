"""Kernel regression over all pairs in chunks, for any kernel and number of inputs; with a gradient.

The kernels of each row are relative to the largest, so that nothing underflows. A row whose kernels reach no
sample takes the nearest samples, which is also the limit of a Gaussian kernel as its bandwidth vanishes.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.attention.scores.distances import distance
from attention_lab.attention.scores.kernels import LOG_KERNELS
from attention_lab.estimators.smoothing.samples import Samples, Smooth

CHUNK = 2**20
"""Numbers in memory at once."""
FLAT = 1e-6
"""Where the inputs vary less, relative to their mean square distance from the query, no line is fitted."""


def smooth_pairs(
    samples: Samples,
    query: Float[Tensor, "Q d"],
    bandwidth: Float[Tensor, " d"],
    kernel: str,
    degree: int,
    own: Int[Tensor, " Q"] | None = None,
    *,
    errors: bool = False,
) -> Smooth:
    """`smooth` over all pairs. Differentiable in the bandwidth only via `leave_one_out_gradient`."""
    parts = [
        _rows(samples, query[part], bandwidth, kernel, degree, None if own is None else own[part], errors)
        for part in _chunks(len(query), samples, degree)
    ]
    if not parts:
        return Smooth(samples.values[:0], samples.weights[:0], samples.weights[:0])
    mean = torch.cat([part.mean for part in parts])
    if not errors:
        return Smooth(mean)
    norms, influences = ([getattr(part, name) for part in parts] for name in ("norm", "influence"))
    return Smooth(mean, torch.cat(norms), torch.cat(influences))


def leave_one_out_gradient(
    samples: Samples, bandwidth: Float[Tensor, " d"], kernel: str, degree: int, loss_weights: Tensor
) -> tuple[float, Float[Tensor, " d"]]:
    """The weighted sum of squared leave-one-out errors, and its gradient w.r.t. the log of each bandwidth."""
    log = bandwidth.log().requires_grad_()
    total, gradient = 0.0, torch.zeros_like(bandwidth)
    for part in _chunks(len(samples.single), samples, degree):
        own = samples.single[part]
        found = _rows(samples, samples.keys[own], log.exp(), kernel, degree, own, False)
        squares = (found.mean - samples.values[own]).square().sum(-1) @ loss_weights[part]
        total += float(squares.detach())
        if squares.requires_grad:
            gradient += torch.autograd.grad(squares, log)[0]
    return total, gradient


def _chunks(queries: int, samples: Samples, degree: int) -> Iterator[slice]:
    keys, inputs = samples.keys.shape
    size = max(CHUNK // max(keys * (inputs if degree else 1), 1), 1)
    yield from (slice(start, min(start + size, queries)) for start in range(0, queries, size))


def _rows(
    samples: Samples,
    query: Tensor,
    bandwidth: Tensor,
    kernel: str,
    degree: int,
    own: Tensor | None,
    errors: bool,
) -> Smooth:
    """All pairs of some queries at once."""
    scaled, keys = query / bandwidth, samples.keys / bandwidth
    logs = LOG_KERNELS[kernel](scaled, keys)
    hidden = None
    if own is not None:
        hidden = torch.arange(len(keys)) == own[:, None]
        logs = logs.masked_fill(hidden, -torch.inf)
    empty = (logs == -torch.inf).all(-1)
    if bool(empty.any()):
        ends = (query, samples.keys) if query.shape[1] == 1 else (scaled, keys)  # ties without rounding
        logs = torch.where(empty[:, None], _nearest(*ends, hidden, kernel), logs)
    logs = logs + samples.weights.log()
    share = logs.softmax(-1)  # not exp(logs - logsumexp), which rounds where all logs are huge
    mean = share @ samples.values
    correction = None
    if degree:
        difference = keys - scaled[:, None]
        centre = (share[:, None] @ difference).squeeze(1)
        about = difference - centre[:, None]
        weighted = about * share[..., None]
        variance, covariance = weighted.mT @ about, weighted.mT @ samples.values
        step = (_inverse(variance, centre) @ centre[..., None]).squeeze(-1)  # C^+ m
        mean = mean - (step[:, None] @ covariance).squeeze(1)
        correction = step, about, (step * centre).sum(-1)
    if not errors:
        return Smooth(mean)
    influence = (-logs.logsumexp(-1).clamp_min(-700.0)).exp() * samples.unit
    if correction is not None:
        step, about, excess = correction
        share = share * (1 - (about @ step[..., None]).squeeze(-1))
        influence = influence * (1 + excess)
    return Smooth(mean, (share.square() / samples.weights).sum(-1) * samples.unit, influence)


def _nearest(query: Tensor, keys: Tensor, hidden: Tensor | None, kernel: str) -> Tensor:
    """0 for the nearest keys of each row, -inf for all others."""
    far = distance(query.detach(), keys.detach(), order=1.0 if kernel == "laplacian" else 2.0)
    far = far if hidden is None else far.masked_fill(hidden, torch.inf)
    return torch.where(far == far.amin(-1, keepdim=True), 0.0, -torch.inf)


def _inverse(variance: Float[Tensor, "Q d d"], centre: Float[Tensor, "Q d"]) -> Float[Tensor, "Q d d"]:
    """The pseudoinverse, ignoring directions in which the inputs barely vary."""
    size = variance.diagonal(dim1=-2, dim2=-1).sum(-1) + centre.square().sum(-1)
    least = (FLAT * size).clamp_min(1e-140).detach()  # the derivative divides by the square
    if variance.shape[-1] == 1:
        steep = variance > least[:, None, None]
        return torch.where(steep, 1 / torch.where(steep, variance, 1.0), 0.0)
    inverse: Tensor = torch.linalg.pinv(variance, atol=least, rtol=torch.zeros_like(least), hermitian=True)
    return inverse
