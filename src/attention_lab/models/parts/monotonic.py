"""A decoder that sums over all monotonic paths through the source (1905.06319)."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.attention.gradient_estimators import NEVER, monotonic_prior
from attention_lab.errors import LabError
from attention_lab.models.parts.decoder import AttentiveDecoder, DecoderState

LEAST = 1e-9
"""Smallest weight of a position, so that a path can continue even where a normaliser gives zero."""


class MonotonicDecoder(AttentiveDecoder):
    """`p(y_t | y_<t, x) = sum_s p(s_t = s | y_<t, x) p(y_t | s, y_<t, x)`; the position never goes back.

    Because the output of a step depends only on that step's position, the sum over all paths is a recursion
    over their last position (the forward algorithm): the belief `p(s_{t-1} | y_<t)` gives the prior of `s_t`,
    and prior times likelihood, once `y_t` is known, gives the next belief. The output is
    `log p(y_t | y_<t, x)` itself, so that its cross entropy is exactly `-log p(y | x)`. The recorded weights
    are the priors.

    Raises:
        LabError: for a wiring in which a step depends on earlier attention.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if not self.steps_are_independent:
            raise LabError(
                "pooling=monotonic sums over the positions of each step, on which later steps depend here: "
                "set model.wiring=luong model.input_feeding=false"
            )

    def forward(
        self, tokens: Int[Tensor, "N T"], state: DecoderState
    ) -> tuple[Float[Tensor, "N T V"], DecoderState]:
        """Log-probabilities of the symbol after each of T given symbols, and the state after them."""
        probability, logits, after = self.enumerate(tokens, state)
        log_weights = probability.float().clamp_min(LEAST).log()
        mask = state.memory.mask
        if mask is not None:
            log_weights = log_weights.masked_fill(~mask, NEVER)
        log_likelihood = logits.float().log_softmax(-1)
        joint, priors, outputs = state.joint, [], []
        for t in range(tokens.shape[1]):
            prior = monotonic_prior(self._belief(joint, tokens[:, t], log_weights[:, t]), log_weights[:, t])
            joint = prior.unsqueeze(-1) + log_likelihood[:, t]
            priors.append(prior)
            outputs.append(joint.logsumexp(1))
        if self.attention.record is not None:
            weights = torch.stack(priors, 1).exp()
            self.attention.record.add(weights if mask is None else weights.masked_fill(~mask, 0.0), mask)
        return torch.stack(outputs, 1), after._replace(joint=joint)

    def _belief(self, joint: Tensor | None, written: Tensor, like: Tensor) -> Tensor:
        """`log p(s)` of the last position given the symbol written there; initially at the first position."""
        if joint is None:
            start = torch.full_like(like, NEVER)
            start[:, 0] = 0.0
            return start
        index = written.view(-1, 1, 1).expand(-1, joint.shape[1], 1)
        return joint.gather(2, index).squeeze(2).log_softmax(-1)
