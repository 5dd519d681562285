"""Losses for hard attention, in which the attended position is a latent variable."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_lab.attention import Exact, Hard, drawing
from attention_lab.attention.gradient_estimators import (
    bound,
    leave_one_out,
    marginal,
    monte_carlo,
    reward_to_go,
)
from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.errors import LabError
from attention_lab.models.seq2seq import EncoderDecoder
from attention_lab.special_symbols import PAD
from attention_lab.tasks.sequence_generation import check_sequences

LogLikelihood = Callable[[Tensor, Tensor], Tensor]
"""Maps logits `[..., V]` and targets `[...]` to `log p(y)` of each target."""


def monte_carlo_loss(
    model: EncoderDecoder, batch: TransductionBatch, pooling: Hard, log_likelihood: LogLikelihood
) -> tuple[Tensor, Tensor]:
    """The loss whose gradient is the N-sample estimate of 1502.03044, eq. 12, per target symbol.

        1/N sum_n [d log p(y | s^n) + lambda_r (log p(y | s^n) - b) d log p(s^n) + lambda_e d H(s)]

    If steps do not depend on earlier draws, the reward of a draw is the log-likelihood of its own symbol.
    Otherwise it is the log-likelihood of this and all later symbols, with a moving average b counted once for
    each.

    Returns:
        The loss to differentiate, and the negative log-likelihood of the draws.

    Raises:
        LabError: all samples of the batch together are too many.
    """
    check_sequences("pooling.samples", pooling.samples, len(batch.source))
    with drawing(pooling) as draws:
        logits = model(batch.source, batch.source_lengths, batch.target, pooling.samples)
    target = batch.target.repeat_interleave(pooling.samples, 0)
    likelihood = log_likelihood(logits, target)
    # Not the dtype of the logits: bfloat16 cannot count to 300.
    mask = (target != PAD).to(likelihood.dtype)
    likelihood = likelihood * mask
    log_probability, entropy = (torch.cat(parts, -1) for parts in zip(*draws, strict=True))
    reward, steps = likelihood, mask
    if not model.decoder.steps_are_independent:
        reward, steps = reward_to_go(reward), reward_to_go(mask)
    baseline: Tensor | float = 0.0
    if pooling.baseline == "leave_one_out":
        baseline = leave_one_out(reward.view(len(batch.target), pooling.samples, -1)).flatten(0, 1)
    elif pooling.baseline == "moving_average":
        baseline = pooling.average * steps
    surrogate = monte_carlo(likelihood, log_probability, reward, baseline, pooling.weight)
    symbols = mask.sum()
    mean = likelihood.sum() / symbols
    if pooling.baseline == "moving_average":
        pooling.average.lerp_(mean.detach().to(pooling.average.dtype), 1 - pooling.decay)
    return -((surrogate + pooling.entropy * entropy) * mask).sum() / symbols, -mean.detach()


def check_enumeration(model: EncoderDecoder) -> None:
    """Raise LabError if positions must be enumerated, but steps depend on earlier attention."""
    if isinstance(model.latent, Exact) and not model.decoder.steps_are_independent:
        raise LabError(
            "pooling=exact enumerates positions at each step, but here the steps depend on each other: "
            "set model.wiring=luong model.input_feeding=false"
        )


def enumerated_loss(
    model: EncoderDecoder, batch: TransductionBatch, pooling: Exact, log_likelihood: LogLikelihood
) -> Tensor:
    """The negative bound, or `-log p(y)`, per target symbol, by enumeration of all positions."""
    probability, logits = model.enumerate(batch.source, batch.source_lengths, batch.target)
    target = batch.target.unsqueeze(-1).expand(probability.shape)
    objective = bound if pooling.objective == "bound" else marginal
    mask = batch.target != PAD
    per_step = objective(probability, log_likelihood(logits, target))
    # A step with nothing to attend to, for example outside a window, has no position to sum over.
    attended = mask & (probability.sum(-1) > 0)
    return -per_step.where(attended, 0.0).sum() / mask.sum()
