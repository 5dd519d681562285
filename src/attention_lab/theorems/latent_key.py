"""A minimal hard-attention problem, whose gradient is known exactly and to which every estimator applies."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attention_lab.attention import Attention, Gumbel, Hard, ScaledDot, drawing
from attention_lab.attention.gradient_estimators import bound, marginal, monte_carlo
from attention_lab.attention.pooling import entropy_of


class Problem:
    """One query that attends to one of K keys, and a likelihood given the value that it receives.

    The context is a value c; y is normal with mean W c and variance 1. Gradients are w.r.t. the query, which
    changes the probabilities, and W, which changes the likelihood.

    Args:
        keys: K.
        size: d, the size of query, keys, values and y.
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
        """The gradient of the bound plus `entropy` times the entropy, by enumeration."""
        query, weight = self._parameters(1)
        probability, likelihood = self._enumerate(query, weight)
        objective = bound(probability, likelihood) + entropy * entropy_of(probability)
        return _flat(torch.autograd.grad(objective.sum(), (query, weight)))[0]

    def likelihoods(self) -> tuple[float, float]:
        """The bound and `log p(y)`, which it does not exceed (1502.03044, eq. 10), by enumeration."""
        every = self._enumerate(*self._parameters(1))
        return bound(*every).item(), marginal(*every).item()

    def by_score_function(self, repetitions: int, pooling: Hard) -> Tensor:
        """Estimates `[R, D]` from the samples of hard attention, as in its training (1502.03044, eq. 12)."""
        query, weight = self._parameters(repetitions)
        attention = self._attention(pooling)
        memory = attention.remember(self.keys, self.values)
        with drawing(pooling) as draws:
            context = attention(query.expand(-1, pooling.samples, -1), memory)
        likelihood = self.log_likelihood(context, weight.unsqueeze(1))
        average = 0.0 * likelihood.detach()
        if pooling.baseline == "moving_average":
            average = _moving_average(likelihood.detach().mean(-1), pooling.decay).unsqueeze(-1)
        surrogate = monte_carlo(likelihood, draws[0].log_probability, baseline=average, weight=pooling.weight)
        surrogate = (surrogate + pooling.entropy * draws[0].entropy).mean(-1)
        return _flat(torch.autograd.grad(surrogate.sum(), (query, weight)))

    def straight_through(self, repetitions: int, pooling: Gumbel) -> Tensor:
        """Estimates `[R, D]` from the gradient of the relaxed sample (1611.01144)."""
        query, weight = self._parameters(repetitions)
        attention = self._attention(pooling)
        context = attention(query, attention.remember(self.keys, self.values)).squeeze(-2)
        likelihood = self.log_likelihood(context, weight)
        return _flat(torch.autograd.grad(likelihood.sum(), (query, weight)))

    def _enumerate(self, query: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """`p(s)` and `log p(y | s)` `[1, K]` of all positions s."""
        attention = self._attention(Hard())
        probability = attention.weights(query, attention.remember(self.keys)).squeeze(-2)
        return probability, self.log_likelihood(self.values, weight.unsqueeze(1))

    def _attention(self, pooling: nn.Module) -> Attention:
        return Attention(ScaledDot(self.size, self.size), pooling=pooling).train()

    def _parameters(self, copies: int) -> tuple[Tensor, Tensor]:
        """Query `[R, 1, d]` and W `[R, d, d]`, copied for each repetition, to get separate gradients."""
        query = self.query.repeat(copies, 1, 1).requires_grad_()
        weight = self.weight.repeat(copies, 1, 1).requires_grad_()
        return query, weight


def _moving_average(likelihood: Tensor, decay: float) -> Tensor:
    """For each of the estimates `[R]`, the average of the earlier ones, starting at 0 as in training."""
    averages, average = [], 0.0
    for one in likelihood.tolist():
        averages.append(average)
        average = decay * average + (1 - decay) * one
    return likelihood.new_tensor(averages)


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten(1) for gradient in gradients], 1)
