"""How hard attention is trained: the variational bound, and estimates of its gradient.

The position s that is attended is a latent variable with `p(s) = a`. By Jensen's inequality
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
    """`log p(y) = log sum_s p(s) p(y | s)`, by enumeration; positions without probability do not enter."""
    joint = log_of(probability) + log_likelihood
    return torch.logsumexp(joint.masked_fill(probability <= 0, -torch.inf), -1)


def monte_carlo(
    log_likelihood: Float[Tensor, "*shape"],
    log_probability: Float[Tensor, "*shape"],
    reward: Float[Tensor, "*shape"] | None = None,
    baseline: Float[Tensor, "*#shape"] | float = 0.0,
    weight: float = 1.0,
) -> Float[Tensor, "*shape"]:
    """A surrogate whose gradient estimates that of L from draws s ~ p (1502.03044, eq. 12).

        d log p(y | s) + weight (reward - baseline) d log p(s)

    Averaged over draws this is unbiased for weight 1 and any baseline that does not depend on s.

    Args:
        log_likelihood: `log p(y | s)` of the drawn position.
        log_probability: `log p(s)` of the drawn position.
        reward: what the draw brought about; by default `log_likelihood`. A draw that also shapes later
            steps is credited with their likelihood too, see `reward_to_go`.
        baseline: b.
        weight: lambda_r.

    Returns:
        The surrogate; its value is of no interest, only its gradient.
    """
    reward = log_likelihood if reward is None else reward
    return log_likelihood + weight * (reward - baseline).detach() * log_probability


def reward_to_go(log_likelihood: Float[Tensor, "... T"]) -> Float[Tensor, "... T"]:
    """`sum_{t' >= t} log p(y_t' | ...)`: all that the draw of step t has a part in."""
    return log_likelihood.flip(-1).cumsum(-1).flip(-1)


NEVER = -1e4
"""The logarithm of no probability; finite, as infinities make NaN of gradients."""


def monotonic_prior(
    log_belief: Float[Tensor, "... S"], log_weights: Float[Tensor, "... S"]
) -> Float[Tensor, "... S"]:
    """`log p(s_t)` from that of `s_{t-1}` where a position never falls (1905.06319, eq. 5 and 8).

    `p(s_t = j) = sum_{i <= j} p(s_{t-1} = i) a_j / sum_{l >= i} a_l`, in O(S).

    Args:
        log_belief: `log p(s_{t-1})` given all that is written.
        log_weights: `log a`, up to a constant of the row; `NEVER` where masked, at the end of a row.
    """
    tail = log_weights.flip(-1).logcumsumexp(-1).flip(-1)
    return log_weights + (log_belief - tail).logcumsumexp(-1)
