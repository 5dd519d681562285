"""How hard attention is trained: the variational bound, and estimates of its gradient (REINFORCE).

The attended position s is a latent variable with `p(s) = a`. By Jensen's inequality
(1502.03044, eq. 10)

    L = sum_s p(s) log p(y | s) <= log sum_s p(s) p(y | s) = log p(y)

with the gradient (eq. 11)

    dL = sum_s p(s) [d log p(y | s) + log p(y | s) d log p(s)].
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.pooling import log_of


def bound(
    probability: Float[Tensor, "... K"], log_likelihood: Float[Tensor, "... K"]
) -> Float[Tensor, "..."]:
    """`L = sum_s p(s) log p(y | s)`, by enumeration of all positions."""
    return (probability * log_likelihood).sum(-1)


def marginal(
    probability: Float[Tensor, "... K"], log_likelihood: Float[Tensor, "... K"]
) -> Float[Tensor, "..."]:
    """`log p(y) = log sum_s p(s) p(y | s)`, by enumeration; positions of probability 0 are left out."""
    joint = log_of(probability) + log_likelihood
    return torch.logsumexp(joint.masked_fill(probability <= 0, -torch.inf), -1)


def monte_carlo(
    log_likelihood: Float[Tensor, "*shape"],
    log_probability: Float[Tensor, "*shape"],
    reward: Float[Tensor, "*shape"] | None = None,
    baseline: Float[Tensor, "*#shape"] | float = 0.0,
    weight: float = 1.0,
) -> Float[Tensor, "*shape"]:
    """A surrogate loss whose gradient estimates that of L from samples s ~ p (1502.03044, eq. 12).

        d log p(y | s) + weight (reward - baseline) d log p(s)

    Averaged over samples this is unbiased for weight 1 and any baseline that does not depend on s.

    Args:
        log_likelihood: `log p(y | s)` of the sampled position.
        log_probability: `log p(s)` of the sampled position.
        reward: the return of the sample; by default `log_likelihood`. A sample that also affects later
            steps is credited with their likelihood too, see `reward_to_go`.
        baseline: b.
        weight: lambda_r.

    Returns:
        The surrogate; only its gradient is meaningful, not its value.
    """
    reward = log_likelihood if reward is None else reward
    return log_likelihood + weight * (reward - baseline).detach() * log_probability


def reward_to_go(log_likelihood: Float[Tensor, "... T"]) -> Float[Tensor, "... T"]:
    """`sum_{t' >= t} log p(y_t' | ...)`: everything that the sample of step t can influence."""
    return log_likelihood.flip(-1).cumsum(-1).flip(-1)


def leave_one_out(reward: Float[Tensor, "B N *T"]) -> Float[Tensor, "B N *T"]:
    """For each of N > 1 samples of an example, the mean reward of its other samples.

    As a baseline it adds no bias, because the samples are independent. Unlike a moving average, it reflects
    how difficult the example is (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!").
    """
    return (reward.sum(1, keepdim=True) - reward) / (reward.shape[1] - 1)
