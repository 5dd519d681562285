"""Rescore the outputs of a beam search with the CTC probabilities of the encoder."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.models.decoding.search import penalty
from attention_lab.models.ensemble import Ensemble, Writer
from attention_lab.models.parts.tagger import Tagger
from attention_lab.sizes import PAD


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
    r"""The outputs in the order of a score that joins decoder and encoder.

    .. math:: \frac{(1 - \lambda) \log p_{\text{att}}(y \mid x) + \lambda \log p_{\text{ctc}}(y \mid x)}
        {lp(y)}

    This is the rescoring of joint CTC/attention decoding (Hori et al. 2017, ACL, P17-1048). The decoder may
    skip or repeat part of the source; the `Tagger` reads each part once, but writes each symbol without
    regard to those beside it. In an ensemble, :math:`\log p_{\text{ctc}}` is the mean of the members that
    have a `Tagger`.

    An output that needs more frames than its source has gets the score -inf. Where all of a source's outputs
    do, as with too few frames per symbol, the decoder alone decides.

    Args:
        model: the model, or the ensemble, that found the outputs.
        source: symbols or images, padded.
        source_lengths: their lengths.
        outputs: of a search, see `n_best_search`.
        scores: their scores, -inf for outputs that do not count.
        weight: lambda, above 0 and at most 1.
        length_penalty: alpha of the search.

    Returns:
        Outputs and scores, the best first.

    Raises:
        LabError: there is no `Tagger`.
    """
    check_has_tagger(model)
    each = []
    for member, tagger in _taggers(model):
        encoded = member.encode(source, source_lengths)
        each.append(tagger.log_likelihood(encoded.keys, encoded.mask, outputs))
    read = torch.stack(each).mean(0)
    impossible = (read == -torch.inf) | (scores == -torch.inf)
    read = read.where(~impossible.all(-1, keepdim=True), 0.0)
    lengths = (outputs != PAD).sum(-1)
    divisors = scores.new_tensor([penalty(length, length_penalty) for length in range(outputs.shape[-1] + 1)])
    joint = (1 - weight) * scores + weight * read / divisors[lengths]
    joint, order = joint.nan_to_num(-torch.inf, neginf=-torch.inf).sort(dim=1, descending=True, stable=True)
    return outputs.gather(1, order.unsqueeze(-1).expand_as(outputs)), joint


def check_has_tagger(model: Writer | Ensemble) -> None:
    """Raise LabError if neither the model nor a member of the ensemble has a `Tagger`."""
    if not _taggers(model):
        raise LabError(
            "task.ctc_rescoring needs the CTC output of an encoder, which this model was built without: "
            "set task.ctc_rescoring=0, or train with model.ctc_frames=3 task.ctc=0.3"
        )


def _taggers(model: Writer | Ensemble) -> list[tuple[Writer, Tagger]]:
    """The members that have a `Tagger`, and it."""
    members = model.members if isinstance(model, Ensemble) else [model]
    # A model of the user's own may not have the attribute.
    found = [(member, getattr(member, "tagger", None)) for member in members]
    return [(member, tagger) for member, tagger in found if tagger is not None]
