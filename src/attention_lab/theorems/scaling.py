"""Why attention divides by the square root of d."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from attention_lab.attention import Dot, ScaledDot, Score, Softmax
from attention_lab.errors import LabError
from attention_lab.theorems.finding import Figure, Finding, seeded
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series


class Measure(NamedTuple):
    """The effect of a score of size d on a softmax.

    Attributes:
        variance: variance of the scores.
        error: its standard error.
        largest: mean of the largest weight.
        entropy: mean entropy of the weights over log K, 1 for uniform weights.
        gradient: norm of the gradient of a random direction of the weights w.r.t. the scores, for the median
            query.
    """

    variance: float
    error: float
    largest: float
    entropy: float
    gradient: float


class Scaling:
    """Var(q . k) = d, and its effect on the softmax (1706.03762, section 3.2.1 and footnote 4).

    With independent entries of mean 0 and variance 1, `q . k = sum_i q_i k_i` has mean 0 and variance d.
    Large scores push the softmax into regions where its gradient vanishes; divided by sqrt(d) they have
    variance 1 at any d.

    Args:
        sizes: d.
        keys: K, number of keys that each query is compared with.
        draws: number of queries, each with its own keys, at each d.
        plain: the score without the factor.
        scaled: the score with the factor.
    """

    def __init__(
        self,
        sizes: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512, 1024),
        keys: int = 32,
        draws: int = 1000,
        plain: Callable[..., Score] = Dot,
        scaled: Callable[..., Score] = ScaledDot,
    ) -> None:
        if len(sizes) < 2 or min(sizes) < 1:
            raise LabError(f"theorem.sizes={list(sizes)}: give two sizes or more, each at least 1")
        if keys < 2 or draws < 2:
            raise LabError(f"theorem.keys={keys}, theorem.draws={draws}: each must be at least 2")
        self.sizes, self.keys, self.draws = sorted(sizes), keys, draws  # criteria name the largest size
        self.plain, self.scaled = plain, scaled

    def run(self, seed: int) -> Finding:
        """Measure both scores at every d."""
        with seeded(seed):
            measured = [self._measure(size) for size in self.sizes]
        plain, scaled = ([pair[i] for pair in measured] for i in (0, 1))
        as_said = all(
            abs(one.variance - size) < 4 * one.error and abs(other.variance - 1) < 4 * other.error
            for size, one, other in zip(self.sizes, plain, scaled, strict=True)
        )
        steady = max(one.gradient for one in scaled) < 1.25 * min(one.gradient for one in scaled)
        vanishes = plain[-1].gradient < 0.5 * scaled[-1].gradient
        return Finding(
            title="Why the square root of d",
            claim="The dot product of two vectors of d independent entries of mean 0 and variance 1 has "
            "variance d. Scores that large saturate the softmax, and its gradient vanishes; divided by "
            "sqrt(d), they have variance 1, and the gradient does not vanish.",
            source="1706.03762, section 3.2.1 and footnote 4",
            columns=(
                "d",
                "Var(q.k)",
                "scaled: Var(q.k)",
                "largest weight",
                "scaled: largest weight",
                "entropy / log K",
                "scaled: entropy / log K",
                "gradient",
                "scaled: gradient",
            ),
            rows=[
                [
                    size,
                    one.variance,
                    other.variance,
                    one.largest,
                    other.largest,
                    one.entropy,
                    other.entropy,
                    one.gradient,
                    other.gradient,
                ]
                for size, one, other in zip(self.sizes, plain, scaled, strict=True)
            ],
            criterion="both variances are within 4 standard errors of d and of 1 at every d; the scaled "
            "gradient varies by less than a quarter; without the scale it is less than "
            "half as large at the largest d",
            holds=as_said and steady and vanishes,
            figures=(Figure("scaling", partial(self._draw, plain, scaled)),),
        )

    def _measure(self, size: int) -> list[Measure]:
        """Measure both scores for the same queries and keys."""
        query, keys = torch.randn(self.draws, 1, size), torch.randn(self.draws, self.keys, size)
        scores = (make(size, size) for make in (self.plain, self.scaled))
        return [_softmax_of(score(query, score.keys(keys)).squeeze(-2)) for score in scores]

    def _draw(self, plain: Sequence[Measure], scaled: Sequence[Measure]) -> Image:
        def pair(field: str) -> list[Series]:
            return [
                Series("q . k", self.sizes, [getattr(one, field) for one in plain], colour=1),
                Series("q . k / sqrt(d)", self.sizes, [getattr(one, field) for one in scaled], colour=0),
            ]

        ticks = self.sizes[::2] if len(self.sizes) > 5 else self.sizes
        theory = [
            Series("expected: d, and 1", self.sizes, self.sizes, style="dashed"),
            Series("", self.sizes, [1.0] * len(self.sizes), style="dashed"),
        ]
        of_d = partial(Lines, x_label="size d of query and key", log_x=True, ticks=ticks)
        panels = [
            of_d([*theory, *pair("variance")], "Variance of the scores", log_y=True),
            of_d(pair("largest"), f"Largest of {self.keys} weights, mean"),
            of_d(pair("gradient"), "Gradient through the softmax, median", log_y=True),
        ]
        note = (
            f"entries of mean 0 and variance 1; {self.draws:,} queries with {self.keys} keys each at every d"
        )
        return draw_panels(panels, title="Without the square root of d, the softmax saturates", note=note)


def _softmax_of(scores: Tensor) -> Measure:
    """The measurements on a softmax of scores `[draws, K]`."""
    scores = scores.detach().requires_grad_()
    weights = Softmax()(scores)
    (gradient,) = torch.autograd.grad(weights, scores, torch.randn_like(weights))
    draws, keys = scores.shape
    squares = scores.detach().double().square().mean(-1)  # the mean of the scores is 0 by symmetry
    entropy = -torch.xlogy(weights, weights).sum(-1) / math.log(keys)
    return Measure(
        variance=squares.mean().item(),
        error=squares.std().item() / math.sqrt(draws),  # scores of one query are not independent
        largest=weights.amax(-1).mean().item(),
        entropy=entropy.mean().item(),
        gradient=gradient.norm(dim=-1).median().item(),
    )
