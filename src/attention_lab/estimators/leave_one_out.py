"""The leave-one-out error of kernel regression, as a function of the bandwidths."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.gaussian.regression import gaussian_regression
from attention_lab.estimators.smoothing.dense import leave_one_out_gradient
from attention_lab.estimators.smoothing.samples import Samples, make_samples
from attention_lab.estimators.smoothing.smooth import smooth


@dataclass(frozen=True)
class LeaveOneOut:
    """`mean_i (y_i - f_(-i)(x_i))^2`, where `f_(-i)` is estimated from all samples but the i-th.

    A sample of weight s counts as s equal samples, of which one is left out (or all of it, if s < 1).
    """

    samples: Samples
    kernel: str
    degree: int
    tolerance: float | None

    def predictions(self, bandwidth: Float[Tensor, " d"]) -> Float[Tensor, "n o"]:
        """`f_(-i)(x_i)`, relative to the mean of the targets, in the order of `samples.single`."""
        own = self.samples.single
        keys = self.samples.keys
        query = keys if len(own) == len(keys) else keys[own]
        return smooth(self.samples, query, bandwidth, self.kernel, self.degree, self.tolerance, own).mean

    def error(self, bandwidth: Float[Tensor, " d"]) -> float:
        """The mean squared error over samples and targets."""
        return self.error_of(self.predictions(bandwidth))

    def error_of(self, predictions: Float[Tensor, "n o"]) -> float:
        """The error of given predictions."""
        own = self.samples.single
        values = self.samples.values
        errors = predictions - (values if len(own) == len(values) else values[own])
        return float(self.loss_weights @ errors.square().sum(-1))

    def gradient(self, bandwidth: Float[Tensor, " d"]) -> tuple[float, Float[Tensor, " d"]]:
        """The error, and its derivative with respect to the logarithm of each bandwidth."""
        if self.kernel != "gaussian" or self.degree:
            return leave_one_out_gradient(
                self.samples, bandwidth, self.kernel, self.degree, self.loss_weights
            )
        samples, own = self.samples, self.samples.single
        width = (1 / bandwidth).requires_grad_()
        query, values = (x if len(own) == len(x) else x[own] for x in (samples.keys, samples.values))
        weights = None if bool((samples.weights == 1).all()) else samples.weights
        found = gaussian_regression(query, samples.keys, samples.values, width, own, self.tolerance, weights)
        error = self.loss_weights @ (found - values).square().sum(-1)
        (slope,) = torch.autograd.grad(error, width)
        return float(error.detach()), -slope * width.detach()

    @property
    def loss_weights(self) -> Float[Tensor, " n"]:
        """The share of each sample's squared error in the mean over samples and targets."""
        counts = self.samples.counts
        return counts / (counts.sum() * max(self.samples.values.shape[1], 1))

    def sampled(self, number: int) -> "LeaveOneOut":
        """The error of a random subset of the samples, always the same one."""
        single, counts = self.samples.single, self.samples.counts
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randperm(len(single), generator=generator)[:number].sort().values
        at = single[chosen]
        parts = self.samples.keys[at], self.samples.values[at], counts[chosen]
        return LeaveOneOut(make_samples(*parts), self.kernel, self.degree, self.tolerance)

    @property
    def size(self) -> float:
        """The number of samples, in which a weight of 2 counts as two."""
        return float(self.samples.counts.sum())

    def optimal_factor(self, other: "LeaveOneOut") -> float:
        """The expected ratio of the best bandwidth to that of `other`; bandwidths scale as n^(-1/(4+d))."""
        return math.exp(math.log(other.size / self.size) / (4 + self.samples.keys.shape[1]))
