"""Estimates of the gradient of hard attention: what each costs in bias and in variance."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from attention_lab.attention import Attention, Gumbel, Hard, ScaledDot, drawing
from attention_lab.attention.estimators import bound, monte_carlo
from attention_lab.attention.pooling import entropy_of
from attention_lab.errors import LabError
from attention_lab.theorems.finding import Cell, Figure, Finding, seeded
from attention_lab.viz.panels import Dots, draw_panels

P = TypeVar("P", Hard, Gumbel)

SURE = 4.0
"""Standard errors from which a bias counts as seen."""


class Estimate(NamedTuple):
    """A gradient estimated many times over, against the exact one.

    Attributes:
        name: of the estimator.
        bias: norm of the mean's distance from the exact gradient of the bound, over the norm of the latter.
        error: of the bias: its root mean square if the estimator had none.
        variance: trace of the covariance of one estimate.
        samples: draws for one estimate.
        group: what kind of estimator it is.
    """

    name: str
    bias: float
    error: float
    variance: float
    samples: int
    group: int


class Problem:
    """One query that looks at one of K keys, and a likelihood of what it then sees.

    The context is a value c; y is normal about W c with variance 1. The gradient is that in the query, which
    moves the probabilities, and in W, which moves the likelihood.

    Args:
        keys: K.
        size: d, of query, keys, values and y.
    """

    def __init__(self, keys: int, size: int) -> None:
        self.query, self.target = torch.randn(2, size, dtype=torch.float64)
        self.keys, self.values = torch.randn(2, keys, size, dtype=torch.float64)
        self.weight = torch.randn(size, size, dtype=torch.float64) * size**-0.5
        self.size = size

    def log_likelihood(self, context: Tensor, weight: Tensor) -> Tensor:
        """`log p(y | c)` of contexts `[..., d]` under W `[..., d, d]`."""
        mean = (weight @ context.unsqueeze(-1)).squeeze(-1)
        likelihood: Tensor = -0.5 * (self.target - mean).square().sum(-1) - 0.5 * self.size * math.log(
            2 * math.pi
        )
        return likelihood

    def exact(self, entropy: float = 0.0) -> Tensor:
        """The gradient of the bound, with the entropy times a factor added, by enumeration."""
        query, weight = self._parameters(1)
        attention = self._attention(Hard())
        probability = attention.weights(query, attention.remember(self.keys)).squeeze(-2)
        likelihood = self.log_likelihood(self.values, weight.unsqueeze(1))
        objective = bound(probability, likelihood) + entropy * entropy_of(probability)
        return _flat(torch.autograd.grad(objective.sum(), (query, weight)))[0]

    def by_score_function(self, repetitions: int, pooling: Hard) -> Tensor:
        """Estimates `[R, D]` from the draws of hard attention, as in its training (1502.03044, eq. 12)."""
        query, weight = self._parameters(repetitions)
        attention = self._attention(pooling)
        memory = attention.remember(self.keys, self.values)
        with drawing(pooling) as draws:
            context = attention(query.expand(-1, pooling.samples, -1), memory)
        likelihood = self.log_likelihood(context, weight.unsqueeze(1))
        average = 0.0 * likelihood.detach()
        if pooling.baseline:
            average = _moving_average(likelihood.detach().mean(-1), pooling.decay).unsqueeze(-1)
        surrogate = monte_carlo(likelihood, draws[0].log_probability, baseline=average, weight=pooling.weight)
        surrogate = (surrogate + pooling.entropy * draws[0].entropy).mean(-1)
        return _flat(torch.autograd.grad(surrogate.sum(), (query, weight)))

    def straight_through(self, repetitions: int, pooling: Gumbel) -> Tensor:
        """Estimates `[R, D]` by the relaxed draw's gradient (1611.01144)."""
        query, weight = self._parameters(repetitions)
        attention = self._attention(pooling)
        context = attention(query, attention.remember(self.keys, self.values)).squeeze(-2)
        likelihood = self.log_likelihood(context, weight)
        return _flat(torch.autograd.grad(likelihood.sum(), (query, weight)))

    def _attention(self, pooling: nn.Module) -> Attention:
        return Attention(ScaledDot(self.size, self.size), pooling=pooling).train()

    def _parameters(self, copies: int) -> tuple[Tensor, Tensor]:
        """Query `[R, 1, d]` and W `[R, d, d]`, a copy for each repetition, so that each has its gradient."""
        query = self.query.repeat(copies, 1, 1).requires_grad_()
        weight = self.weight.repeat(copies, 1, 1).requires_grad_()
        return query, weight


class HardGradients:
    """Bias and variance of the gradient estimates of hard attention (1502.03044, section 4.1).

    The exact gradient of the bound `sum_s p(s) log p(y | s)` is known by enumeration of the K positions. The
    score function is unbiased for any number N of draws, with a variance that falls as 1 / N; a moving
    average as baseline leaves the mean and lowers the variance. An entropy term has another objective, whose
    gradient it estimates without bias. Straight-through Gumbel-softmax has a bias that no number of draws
    removes.

    Args:
        keys: K.
        size: d.
        repetitions: estimates by each estimator.
        samples: N, numbers of draws for the score function.
        decay: of the moving average.
        entropy: lambda_e, of the entropy term.
        temperatures: of straight-through Gumbel-softmax.
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
        if keys < 2 or size < 1 or repetitions < 100:
            raise LabError("theorem: keys must be at least 2, size at least 1, repetitions at least 100")
        if 1 not in samples:
            raise LabError("theorem.samples must contain 1, with which the others are compared")
        self.keys, self.size, self.repetitions = keys, size, repetitions
        self.samples, self.decay, self.entropy, self.temperatures = samples, decay, entropy, temperatures

    def run(self, seed: int) -> Finding:
        """Estimate many times by each estimator."""
        with seeded(seed):
            problem = Problem(self.keys, self.size)
            exact, other = problem.exact(), problem.exact(self.entropy)
            plain = [
                self._by_draws(f"score function, N = {n}", problem, exact, 0, samples=n) for n in self.samples
            ]
            based = [
                self._by_draws(f"with baseline, N = {n}", problem, exact, 2, samples=n, baseline=True)
                for n in self.samples
            ]
            name = f"entropy {self.entropy:g}, N = 1"
            mixed = self._by_draws(name, problem, exact, 3, entropy=self.entropy)
            name = "the same, against its objective"
            own = self._by_draws(name, problem, other, 3, entropy=self.entropy)
            relaxed = [
                self._estimate(
                    f"Gumbel, T = {temperature:g}", problem.straight_through, Gumbel(temperature), exact, 1
                )
                for temperature in self.temperatures
            ]
        everything = [*plain, *based, mixed, own, *relaxed]
        (single,) = (one for one in plain if one.samples == 1)
        unbiased = all(one.bias < SURE * one.error for one in [*plain, *based, own])
        fewer = all(one.variance < 0.9 * two.variance for one, two in zip(based, plain, strict=True))
        shares = [one.variance * one.samples / single.variance for one in plain]
        falls = all(abs(share - 1) < 0.15 for share in shares)
        biased = all(one.bias > SURE * one.error for one in [mixed, relaxed[-1]])
        rows: list[list[Cell]] = [
            [one.name, one.bias, one.error, one.bias / one.error, one.variance / single.variance]
            for one in everything
        ]
        return Finding(
            title="Gradients of hard attention",
            claim="The score function estimates the gradient of the bound without bias, with a variance "
            "that falls as 1/N; a moving-average baseline lowers it and adds no bias. The entropy term "
            "follows another objective, and straight-through Gumbel-softmax trades variance for a bias.",
            source="1502.03044, section 4.1, eq. 10 to 12; 1611.01144",
            columns=("estimator", "bias / |exact|", "its error", "in errors", "variance / plain N=1"),
            rows=rows,
            criterion=f"the score function, with baseline and with entropy (against its own objective) are "
            f"within {SURE:g} standard errors of the exact gradient; N draws have 1/N of the variance "
            f"within 15%; the baseline takes at least a tenth of it; the entropy term and the warmest "
            f"Gumbel are biased by more than {SURE:g} errors",
            holds=unbiased and fewer and falls and biased,
            figures=(Figure("gradients", partial(draw_panels, _panels(everything, single), **self._text())),),
        )

    def _by_draws(
        self,
        name: str,
        problem: Problem,
        exact: Tensor,
        group: int,
        *,
        samples: int = 1,
        baseline: bool = False,
        entropy: float = 0.0,
    ) -> Estimate:
        pooling = Hard(samples, baseline=baseline, decay=self.decay, entropy=entropy)
        return self._estimate(name, problem.by_score_function, pooling, exact, group, samples)

    def _estimate(
        self,
        name: str,
        form: Callable[[int, P], Tensor],
        pooling: P,
        exact: Tensor,
        group: int,
        samples: int = 1,
    ) -> Estimate:
        found = form(self.repetitions, pooling)
        variance = found.var(0).sum().item()
        norm = exact.norm().item()
        bias = (found.mean(0) - exact).norm().item()
        return Estimate(
            name, bias / norm, math.sqrt(variance / self.repetitions) / norm, variance, samples, group
        )

    def _text(self) -> dict[str, str]:
        return {
            "title": "Gradients of hard attention: bias against variance",
            "note": f"{self.repetitions:,} estimates by each; one of {self.keys} positions is drawn; "
            f"bars: {SURE:g} standard errors",
        }


def _panels(estimates: Sequence[Estimate], single: Estimate) -> list[Dots]:
    names, groups = [one.name for one in estimates], [one.group for one in estimates]
    return [
        Dots(
            names,
            [one.bias for one in estimates],
            [SURE * one.error for one in estimates],
            groups,
            title="Bias",
            x_label="|mean - exact| / |exact|",
            reference=0.0,
        ),
        Dots(
            names,
            [one.variance / single.variance for one in estimates],
            None,
            groups,
            title="Variance",
            x_label="relative to the score function with N = 1",
            log=True,
            reference=1.0,
        ),
    ]


def _moving_average(likelihood: Tensor, decay: float) -> Tensor:
    """For each of the estimates `[R]` the average of those before, which starts at 0 as in training."""
    averages, average = [], 0.0
    for one in likelihood.tolist():
        averages.append(average)
        average = decay * average + (1 - decay) * one
    return likelihood.new_tensor(averages)


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten(1) for gradient in gradients], 1)
