"""Pooling turns weights and values into the context: a weighted sum of the values, or one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.attention.normalizers import masked_softmax
from attention_lab.errors import LabError


class Soft(nn.Module):
    """Expectation of the values under the weights, `c = sum_i a_i v_i` (1409.0473, eq. 5)."""

    def forward(
        self, weights: Float[Tensor, "... Q K"], value: Float[Tensor, "... K dv"]
    ) -> Float[Tensor, "... Q dv"]:
        """Context of each query."""
        return weights.to(value.dtype) @ value


class Draw(NamedTuple):
    """Sampled positions as the loss needs them: `log p(s)` and the entropy of p, each `[..., Q]`."""

    log_probability: Tensor
    entropy: Tensor


class _OneHot(nn.Module):
    """One key for each query; in evaluation the most probable one, `c = v_s`, `s = argmax_i a_i`.

    Weights that do not sum to one (sigmoid, local-p) are first normalised to probabilities. A row of zeros,
    or without a key, gives a context of zero.
    """

    def forward(
        self, weights: Float[Tensor, "... Q K"], value: Float[Tensor, "... K dv"]
    ) -> Float[Tensor, "... Q dv"]:
        """Context of each query: the value of one key."""
        if not weights.shape[-1]:  # nothing to choose from
            return weights.to(value.dtype) @ value
        probability = probabilities(weights)
        chosen = self.choose(probability) if self.training else _one_hot(probability.argmax(-1), probability)
        chosen = chosen * (probability.detach().sum(-1, keepdim=True) > 0)
        return chosen.to(value.dtype) @ value

    def choose(self, probability: Float[Tensor, "... Q K"]) -> Float[Tensor, "... Q K"]:
        """The one-hot choice in training; by default the same as in evaluation."""
        return _one_hot(probability.argmax(-1), probability)


class Hard(_OneHot):
    """Stochastic hard attention, `s ~ Categorical(a)`, `c = v_s` (1502.03044, section 4.1).

    No gradient passes through the sampling. It is trained by `gradient_estimators.monte_carlo` on the samples
    that `drawing` collects.

    Args:
        samples: N, the number of samples for each example and step.
        baseline: subtracted from `log p(y | s)`, to lower the gradient's variance without changing its mean:
            `moving_average` (or True), `leave_one_out` for the mean over the other samples of the same
            example, or `none` (or False).
        decay: of the moving average, b <- decay b + (1 - decay) log p(y | s); 0.9 in the paper.
        weight: lambda_r, the weight of the score-function term.
        entropy: lambda_e, the weight of the entropy term, which keeps the weights from collapsing early.
    """

    average: Tensor

    def __init__(
        self,
        samples: int = 1,
        *,
        baseline: bool | str = "moving_average",
        decay: float = 0.9,
        weight: float = 1.0,
        entropy: float = 0.01,
    ) -> None:
        super().__init__()
        check_number("pooling.samples", samples, least=1, whole=True)
        check_number("pooling.weight", weight)
        check_number("pooling.entropy", entropy)
        if not 0 <= decay < 1:
            raise LabError(f"pooling.decay must be in [0, 1), got {decay}")
        if isinstance(baseline, bool):
            baseline = "moving_average" if baseline else "none"
        if baseline not in ("moving_average", "leave_one_out", "none"):
            raise LabError(
                f"pooling.baseline={baseline} is unknown: choose moving_average, leave_one_out or none"
            )
        if baseline == "leave_one_out" and samples == 1:
            raise LabError(
                "pooling.baseline=leave_one_out compares the samples of an example: "
                "set pooling.samples=2 or more"
            )
        self.samples, self.baseline, self.decay = samples, baseline, decay
        self.weight, self.entropy = weight, entropy
        self.register_buffer("average", torch.zeros(()))
        self.draws: list[Draw] | None = None

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"samples={self.samples}, baseline={self.baseline}"

    def choose(self, probability: Float[Tensor, "... Q K"]) -> Float[Tensor, "... Q K"]:
        """A sample from the probabilities; inside `drawing` its log-probability is recorded."""
        flat = probability.detach().flatten(0, -2)
        empty = flat.sum(-1, keepdim=True) == 0
        index = _draw(flat.float() + empty).view(probability.shape[:-1])
        if self.draws is not None:
            self.draws.append(
                Draw(log_of(probability.gather(-1, index.unsqueeze(-1)).squeeze(-1)), entropy_of(probability))
            )
        return _one_hot(index, probability)


class Gumbel(_OneHot):
    """Straight-through Gumbel-softmax: a one-hot sample with the gradient of a soft one (1611.01144).

    The forward pass gives `one_hot(argmax_i (log a_i + g_i))` with Gumbel noise g, an exact sample from a.
    The backward pass uses the gradient of `softmax((log a + g) / T)`.

    Args:
        temperature: T; a smaller T is closer to the one-hot sample, but its gradient has more variance.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        check_number("pooling.temperature", temperature, above=0)
        self.temperature = temperature

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"temperature={self.temperature}"

    def choose(self, probability: Float[Tensor, "... Q K"]) -> Float[Tensor, "... Q K"]:
        """A one-hot sample with the gradient of the relaxed one."""
        # In half precision, the noise would cause ties.
        probability = probability.to(torch.promote_types(probability.dtype, torch.float32))
        noise = torch.empty_like(probability).exponential_()
        noise = -noise.clamp_min(torch.finfo(noise.dtype).tiny).log()
        relaxed = masked_softmax(log_of(probability) + noise, probability.detach() > 0, self.temperature)
        return _one_hot(relaxed.argmax(-1), probability) + (relaxed - relaxed.detach())


class Exact(_OneHot):
    """Hard attention trained by enumerating the positions instead of sampling, for models that support it.

    Args:
        objective: `bound`, `sum_s p(s) log p(y | s)` (1502.03044, eq. 10), whose gradient Monte Carlo
            estimates; or `marginal`, `log p(y) = log sum_s p(s) p(y | s)`, which it bounds from below.
    """

    def __init__(self, objective: str = "bound") -> None:
        super().__init__()
        if objective not in ("bound", "marginal"):
            raise LabError(f"pooling.objective={objective} is unknown: choose bound or marginal")
        self.objective = objective

    def extra_repr(self) -> str:
        """The options, for `print(model)`."""
        return f"objective={self.objective}"


class Monotonic(_OneHot):
    """Exact hard monotonic attention: positions never go back, and all paths are summed (1905.06319).

    A decoder that supports it (`models.parts.monotonic`) computes `p(y)` as the sum over paths
    `s_1 <= s_2 <= ...`, where `p(s_t | s_{t-1})` are the weights renormalised over the positions from
    `s_{t-1}` on. Elsewhere it behaves like other hard attention.
    """


@contextmanager
def drawing(pooling: Hard) -> Iterator[list[Draw]]:
    """Collect the samples of `pooling`, call by call.

    Raises:
        TypeError: it is not a `Hard` pooling, the only one whose samples are collected.
    """
    if not isinstance(pooling, Hard):
        raise TypeError(f"drawing takes a Hard pooling, such as attention.pooling, not {kind_of(pooling)}")
    pooling.draws = []
    try:
        yield pooling.draws
    finally:
        pooling.draws = None


def probabilities(weights: Float[Tensor, "... Q K"]) -> Float[Tensor, "... Q K"]:
    """Weights divided by their sum; a row of zeros stays zero."""
    total = weights.sum(-1, keepdim=True)
    return weights / total.where(total > 0, 1.0)


def log_of(probability: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The logarithm, but 0 for `log 0`, whose infinite slope would turn every gradient into NaN."""
    return probability.where(probability > 0, 1.0).log()


def entropy_of(probability: Float[Tensor, "... K"]) -> Float[Tensor, "..."]:
    """`-sum_i p_i log p_i` of each row."""
    return -(probability * log_of(probability)).sum(-1)


def _draw(probability: Tensor) -> Tensor:
    """A sample from each row `[N, K]`."""
    if probability.device.type == "cpu":
        return torch.multinomial(probability, 1)
    # The same without multinomial's two checks of the values, each of which would force a synchronisation.
    return (probability / torch.empty_like(probability).exponential_()).argmax(-1)


def _one_hot(index: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter_(-1, index.unsqueeze(-1), 1.0)
