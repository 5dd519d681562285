"""The inputs and outputs of the smoothers."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Samples(NamedTuple):
    """Samples, sorted if they have a single input, otherwise in any order.

    Attributes:
        keys: inputs `[K, d]`, float64, relative to their centre.
        values: targets `[K, o]`, relative to their mean.
        weights: `[K]`, above 0 and at most 1.
        single: `[n]`, ascending: for each sample, the key to leave out in leave-one-out prediction.
        order: `[n]`, the original number of each of these samples, in the order in which they were given.
        unit: the weight of one sample in the units of `weights`.
    """

    keys: Float[Tensor, "K d"]
    values: Float[Tensor, "K o"]
    weights: Float[Tensor, " K"]
    single: Int[Tensor, " n"]
    order: Int[Tensor, " n"]
    unit: float

    def columns(self) -> Float[Tensor, "K c"]:
        """The weights, and the weighted values."""
        return torch.cat([self.weights[:, None], self.values * self.weights[:, None]], -1)

    @property
    def counts(self) -> Float[Tensor, " n"]:
        """The total weight of each sample, in units of one sample, in the order of `single`."""
        ends = torch.cat([self.single[1:], self.single.new_tensor([len(self.weights)])])
        if len(ends) == len(self.weights):
            return self.weights / self.unit
        total = torch.cat([self.weights.new_zeros(1), self.weights.cumsum(0)])
        extra = ends - self.single > 1
        result = self.weights[self.single]
        result[extra] = total[ends[extra]] - total[self.single[extra]]
        return result / self.unit


class Smooth(NamedTuple):
    """A smoother `f(x) = sum_j l_j(x) y_j` at some points.

    Attributes:
        mean: f, relative to the mean of the values `[Q, o]`.
        norm: `sum_j l_j^2 / s_j` for the weights s, the variance of f for targets of variance 1 `[Q]`.
        influence: the weight that a sample of weight 1 exactly at the point would have `[Q]`.
    """

    mean: Float[Tensor, "Q o"]
    norm: Float[Tensor, " Q"] | None = None
    influence: Float[Tensor, " Q"] | None = None


def make_samples(
    keys: Float[Tensor, "n d"], values: Float[Tensor, "n o"], weights: Float[Tensor, " n"]
) -> Samples:
    """Sort samples of one input, and split those with a weight above 1 in two: one sample, and the rest.

    Leaving out one sample of weight 3 then leaves a weight of 2, just as with three equal samples.
    """
    order = keys[:, 0].argsort(stable=True) if keys.shape[1] == 1 else torch.arange(len(keys))
    keys, values, weights = keys[order], values[order], weights[order]
    repeats = torch.where(weights > 1, 2, 1)
    single = repeats.cumsum(0) - repeats
    if int(repeats.sum()) > len(keys):
        row = torch.repeat_interleave(torch.arange(len(keys)), repeats)
        keys, values = keys[row], values[row]
        split = (weights[row] - 1).clamp_min(0.0)
        split[single] = weights.clamp_max(1.0)
        weights = split
    largest = float(weights.max())
    return Samples(keys, values, weights / largest, single, order, 1 / largest)
