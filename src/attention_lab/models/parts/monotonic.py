"""A decoder that sums over all monotonic paths through the source (1905.06319)."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.models.parts.recurrent_decoder import AttentiveDecoder, DecoderState

NEVER = -1e4
"""Stands for `log 0`; finite, because infinities turn gradients into NaN."""
LEAST = 1e-9
"""Smallest weight of a position, so that a path can continue even where a normaliser gives zero."""


class MonotonicDecoder(AttentiveDecoder):
    """`p(y_t | y_<t, x) = sum_s p(s_t = s | y_<t, x) p(y_t | s, y_<t, x)`; the position never goes back.

    Because the output of a step depends only on that step's position, the sum over all paths is a recursion
    over their last position (the forward algorithm). The belief `p(s_{t-1} | y_<t)` gives the prior of `s_t`;
    prior times likelihood, once `y_t` is known, gives the next belief. The output is `log p(y_t | y_<t, x)`
    itself, so its cross entropy is exactly `-log p(y | x)`. The recorded weights are the priors.

    Raises:
        LabError: a step depends on earlier attention in this wiring.
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
        """Log-probabilities of the symbol after each of the T given symbols, and the new state."""
        probability, logits, after = self.enumerate(tokens, state)
        working = torch.promote_types(logits.dtype, torch.float32)
        log_weights = probability.to(working).clamp_min(LEAST).log()
        mask = state.memory.mask
        if mask is not None:
            log_weights = log_weights.masked_fill(~mask, NEVER)
        log_likelihood = logits.log_softmax(-1, dtype=working)
        # The recursion needs only the likelihoods of the symbols; the rest is done for all steps at once.
        observed = _at_symbols(log_likelihood[:, :-1], tokens[:, 1:]).unbind(1)
        belief = self._first_belief(state.joint, tokens[:, 0], log_weights[:, 0])
        priors: list[Tensor] = []
        for step, weights in enumerate(
            zip(log_weights.unbind(1), log_tail(log_weights).unbind(1), strict=True)
        ):
            if step:
                belief = (priors[-1] + observed[step - 1]).log_softmax(-1)
            priors.append(monotonic_prior(belief, *weights))
        prior = torch.stack(priors, 1)
        joint = prior.unsqueeze(-1) + log_likelihood
        if self.attention.record is not None:
            recorded = prior.exp()
            self.attention.record.add(recorded if mask is None else recorded.masked_fill(~mask, 0.0), mask)
        return joint.logsumexp(2), after._replace(joint=joint[:, -1])

    def _first_belief(self, joint: Tensor | None, symbols: Tensor, like: Tensor) -> Tensor:
        """`log p(s)` of the last position given its symbol; at first, position 0 is certain."""
        if joint is None:
            start = torch.full_like(like, NEVER)
            start[:, 0] = 0.0
            return start
        return _at_symbols(joint.unsqueeze(1), symbols.unsqueeze(1)).squeeze(1).log_softmax(-1)


def _at_symbols(joint: Float[Tensor, "N T S V"], symbols: Int[Tensor, "N T"]) -> Float[Tensor, "N T S"]:
    """Select the entries of the symbol of each step."""
    index = symbols[:, :, None, None].expand(-1, -1, joint.shape[2], 1)
    return joint.gather(3, index).squeeze(3)


def log_tail(log_weights: Float[Tensor, "... S"]) -> Float[Tensor, "... S"]:
    """`log sum_{l >= i} a_l` for each position i."""
    return log_weights.flip(-1).logcumsumexp(-1).flip(-1)


def monotonic_prior(
    log_belief: Float[Tensor, "... S"], log_weights: Float[Tensor, "... S"], tail: Float[Tensor, "... S"]
) -> Float[Tensor, "... S"]:
    """`log p(s_t)` from `log p(s_{t-1})` if positions never decrease (1905.06319, eq. 5 and 8).

    `p(s_t = j) = sum_{i <= j} p(s_{t-1} = i) a_j / sum_{l >= i} a_l`, in O(S).

    Args:
        log_belief: `log p(s_{t-1})` given all symbols written so far.
        log_weights: `log a`, up to a constant per row; `NEVER` where masked, at the end of a row.
        tail: its `log_tail`.
    """
    return log_weights + (log_belief - tail).logcumsumexp(-1)
