"""Bias and variance of gradient estimates for hard attention."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from PIL.Image import Image
from torch import Tensor

from attention_lab.argument_checks import check_counts
from attention_lab.attention import Gumbel, Hard
from attention_lab.errors import LabError
from attention_lab.theorems.finding import Cell, Figure, Finding, seeded
from attention_lab.theorems.latent_key import Problem
from attention_lab.theorems.option_checks import check_list
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Dot, Dots

P = TypeVar("P", Hard, Gumbel)

SURE = 4.0
"""Number of standard errors above which a bias counts as significant."""
SCORE_FUNCTION, GUMBEL, WITH_BASELINE, WITH_ENTROPY = range(4)
"""Kinds of estimators; the last two are score functions, too."""


class Estimate(NamedTuple):
    """A gradient estimated many times, compared with the exact one.

    Attributes:
        name: name of the estimator.
        bias: distance of the mean from the exact gradient of the bound, relative to the norm of the latter.
        error: standard error of the bias: its root mean square for an unbiased estimator.
        variance: trace of the covariance of one estimate.
        samples: number of samples per estimate.
        kind: kind of estimator, which determines its colour.
    """

    name: str
    bias: float
    error: float
    variance: float
    samples: int
    kind: int

    @property
    def in_errors(self) -> float:
        """The bias in standard errors; infinite if all estimates are the same, as at a high temperature."""
        return self.bias / self.error if self.error else math.inf


class Estimates(NamedTuple):
    """All compared estimates.

    Attributes:
        plain: the score function, for each number of samples.
        with_baseline: the same with a baseline.
        with_entropy: the score function with an entropy term, compared with the gradient of the bound.
        own_objective: the same, compared with the gradient of its own objective.
        gumbel: straight-through Gumbel-softmax, for each temperature.
    """

    plain: list[Estimate]
    with_baseline: list[Estimate]
    with_entropy: Estimate
    own_objective: Estimate
    gumbel: list[Estimate]

    @property
    def every(self) -> list[Estimate]:
        """All estimates in the order of the table."""
        return [*self.plain, *self.with_baseline, self.with_entropy, self.own_objective, *self.gumbel]

    @property
    def single(self) -> Estimate:
        """The score function with one sample, the reference for the others."""
        return next(one for one in self.plain if one.samples == 1)

    @property
    def hold(self) -> bool:
        """Whether bias and variance are as claimed."""
        unbiased = all(
            one.bias < SURE * one.error for one in [*self.plain, *self.with_baseline, self.own_objective]
        )
        fewer = all(
            one.variance < 0.9 * two.variance for one, two in zip(self.with_baseline, self.plain, strict=True)
        )
        shares = [one.variance * one.samples / self.single.variance for one in self.plain]
        falls = all(abs(share - 1) < 0.15 for share in shares)
        biased = all(one.bias > SURE * one.error for one in [self.with_entropy, self.gumbel[-1]])
        return unbiased and fewer and falls and biased


class HardGradients:
    """Bias and variance of the gradient estimates of hard attention (1502.03044, section 4.1).

    Enumerating the K positions gives the bound `sum_s p(s) log p(y | s) <= log p(y)` and its exact gradient.
    The score function is unbiased for any number N of samples, with a variance that falls as 1 / N. A moving
    average as baseline keeps the mean and lowers the variance. An entropy term has a different objective,
    whose gradient it estimates without bias. Straight-through Gumbel-softmax has a bias that no number of
    samples removes.

    Args:
        keys: K.
        size: d.
        repetitions: number of estimates by each estimator.
        samples: N, numbers of samples for the score function.
        decay: decay of the moving average.
        entropy: lambda_e, the weight of the entropy term.
        temperatures: temperatures of straight-through Gumbel-softmax.
    """

    def __init__(
        self,
        keys: int = 8,
        size: int = 4,
        repetitions: int = 20000,
        samples: Sequence[int] = (1, 4, 16),
        decay: float = 0.9,
        entropy: float = 2.0,
        temperatures: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
    ) -> None:
        check_counts("theorem", 2, keys=keys)
        check_counts("theorem", 1, size=size)
        check_counts("theorem", 100, repetitions=repetitions)
        if 1 not in samples:
            raise LabError("theorem.samples must contain 1, with which the others are compared")
        check_list("samples", samples, least=1, whole=True)
        check_list("temperatures", temperatures, above=0)
        self.keys, self.size, self.repetitions = keys, size, repetitions
        self.samples, self.decay, self.entropy = samples, decay, entropy
        self.temperatures = sorted(temperatures)  # a criterion names the warmest

    def run(self, seed: int) -> Finding:
        """Compute many estimates with each estimator."""
        with seeded(seed):
            problem = Problem(self.keys, self.size)
            found = self._estimates(problem)
        lower, likelihood = problem.likelihoods()
        single = found.single
        rows: list[list[Cell]] = [
            [one.name, one.bias, one.error, one.in_errors, one.variance / single.variance]
            for one in found.every
        ]
        return Finding(
            title="Gradients of hard attention",
            claim="The bound does not exceed the log-likelihood. The score function estimates the bound's "
            "gradient without bias, with a variance that falls as 1/N; a moving-average baseline lowers it "
            "and adds no bias. The entropy term "
            "follows another objective, and straight-through Gumbel-softmax trades variance for a bias.",
            source="1502.03044, section 4.1, eq. 10 to 12; 1611.01144",
            columns=("estimator", "bias / |exact|", "standard error", "bias / error", "variance / plain N=1"),
            rows=rows,
            criterion="the bound does not exceed log p(y); the score function alone, with the baseline and "
            f"with the entropy term (against its own objective) is within {SURE:g} standard errors of the "
            "exact gradient; N draws have 1/N of the variance within 15%; the baseline lowers it by at least "
            f"a tenth; the entropy term and the warmest Gumbel are biased by more than {SURE:g} standard "
            "errors",
            holds=lower <= likelihood and found.hold,
            figures=(Figure("gradients", partial(self._draw, found)),),
            notes=(f"by enumeration of {self.keys} positions: bound {lower:.4f}, log p(y) {likelihood:.4f}",),
        )

    def _estimates(self, problem: Problem) -> Estimates:
        exact, other = problem.exact(), problem.exact(self.entropy)
        return Estimates(
            plain=[
                self._by_draws(f"score function, N = {n}", problem, exact, SCORE_FUNCTION, samples=n)
                for n in self.samples
            ],
            with_baseline=[
                self._by_draws(
                    f"with baseline, N = {n}", problem, exact, WITH_BASELINE, samples=n, baseline=True
                )
                for n in self.samples
            ],
            with_entropy=self._by_draws(
                f"entropy {self.entropy:g}, N = 1", problem, exact, WITH_ENTROPY, entropy=self.entropy
            ),
            own_objective=self._by_draws(
                "the same, against its objective", problem, other, WITH_ENTROPY, entropy=self.entropy
            ),
            gumbel=[
                self._estimate(
                    f"Gumbel, T = {temperature:g}",
                    problem.straight_through,
                    Gumbel(temperature),
                    exact,
                    GUMBEL,
                )
                for temperature in self.temperatures
            ],
        )

    def _by_draws(
        self,
        name: str,
        problem: Problem,
        exact: Tensor,
        kind: int,
        *,
        samples: int = 1,
        baseline: bool = False,
        entropy: float = 0.0,
    ) -> Estimate:
        pooling = Hard(samples, baseline=baseline, decay=self.decay, entropy=entropy)
        return self._estimate(name, problem.by_score_function, pooling, exact, kind, samples)

    def _estimate(
        self,
        name: str,
        form: Callable[[int, P], Tensor],
        pooling: P,
        exact: Tensor,
        kind: int,
        samples: int = 1,
    ) -> Estimate:
        found = form(self.repetitions, pooling)
        variance = found.var(0).sum().item()
        norm = exact.norm().item()
        bias = (found.mean(0) - exact).norm().item()
        return Estimate(
            name, bias / norm, math.sqrt(variance / self.repetitions) / norm, variance, samples, kind
        )

    def _draw(self, found: Estimates) -> Image:
        title = "Gradients of hard attention: bias against variance"
        note = f"{self.repetitions:,} estimates by each; one of {self.keys} positions is drawn; "
        note += f"bars: {SURE:g} standard errors"
        return draw_panels(_panels(found), title=title, note=note)


def _panels(found: Estimates) -> list[Dots]:
    biases, variances = [], []
    for one in found.every:
        half = SURE * one.error
        biases.append(Dot(one.name, one.bias, (one.bias - half, one.bias + half), group=one.kind))
        variances.append(Dot(one.name, one.variance / found.single.variance, group=one.kind))
    relative = "relative to the score function with N = 1"
    return [
        Dots(biases, "Bias", "|mean - exact| / |exact|", reference=0.0),
        Dots(variances, "Variance", relative, log=True, reference=1.0),
    ]
