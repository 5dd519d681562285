"""Choose among the outputs that a beam search has found with a second opinion: that of the encoder alone."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.models.decoding import penalty
from attention_lab.models.ensemble import Ensemble, Writer
from attention_lab.sizes import PAD

IMPOSSIBLE = -1e4
"""Log-probability of an output that needs more frames than its source has, so that another is chosen."""


@torch.no_grad()
def rescore(
    model: Writer | Ensemble,
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    outputs: Int[Tensor, "B n T"],
    scores: Float[Tensor, "B n"],
    weight: float,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    r"""The outputs in the order of a score in which decoder and encoder both count.

    .. math:: \frac{(1 - \lambda) \log p_{\text{att}}(y \mid x) + \lambda \log p_{\text{ctc}}(y \mid x)}
        {lp(y)}

    This is the rescoring of joint CTC/attention decoding (Hori et al. 2017, ACL, P17-1048). The decoder may
    skip or repeat part of the source; the `Tagger` reads each part once, but writes each symbol without
    regard to those beside it. In an ensemble, :math:`\log p_{\text{ctc}}` is the mean of the members that
    have a `Tagger`.

    Args:
        model: the model, or the ensemble, that found the outputs; with a `Tagger`.
        source: symbols or images, padded.
        source_lengths: their lengths.
        outputs: of a search, see `n_best_search`.
        scores: their scores, -inf for outputs that do not count.
        weight: lambda, from 0 to 1.
        length_penalty: alpha of the search.

    Returns:
        Outputs and scores, the best first.
    """
    members = [member for member in _members(model) if member.tagger is not None]
    read = torch.stack([_log_likelihood(member, source, source_lengths, outputs) for member in members]).mean(
        0
    )
    lengths = (outputs != PAD).sum(-1)
    divisors = scores.new_tensor([penalty(length, length_penalty) for length in range(outputs.shape[-1] + 1)])
    joint = (1 - weight) * scores + weight * read / divisors[lengths]
    joint, order = joint.masked_fill(scores == -torch.inf, -torch.inf).sort(
        dim=1, descending=True, stable=True
    )
    return outputs.gather(1, order.unsqueeze(-1).expand_as(outputs)), joint


def has_tagger(model: Writer | Ensemble) -> bool:
    """Whether the model, or a member of the ensemble, has a `Tagger`."""
    return any(member.tagger is not None for member in _members(model))


def _members(model: Writer | Ensemble) -> list[Writer]:
    return model.members if isinstance(model, Ensemble) else [model]


def _log_likelihood(member: Writer, source: Tensor, source_lengths: Tensor, outputs: Tensor) -> Tensor:
    assert member.tagger is not None
    encoded = member.encode(source, source_lengths)
    return member.tagger.log_likelihood(encoded.keys, encoded.mask, outputs).clamp_min(IMPOSSIBLE)
