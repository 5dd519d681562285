"""Rescore the outputs of a beam search with the CTC probabilities of the encoder."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.models.decoding.search import best_first, penalized
from attention_lab.models.ensemble import Ensemble, Writer
from attention_lab.models.parts.tagger import Tagger
from attention_lab.models.two_way import TwoWayEnsemble, directions


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
    have a `Tagger`, of both directions.

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
    for direction in directions(model, source):
        for member, tagger in _taggers(direction.model):
            encoded = member.encode(direction.source, source_lengths)
            each.append(tagger.log_likelihood(encoded.keys, encoded.mask, direction.outputs(outputs)))
    read = torch.stack(each).mean(0)
    impossible = (read == -torch.inf) | (scores == -torch.inf)
    read = read.where(~impossible.all(-1, keepdim=True), 0.0)
    joint = (1 - weight) * scores + weight * penalized(read.to(scores), outputs, length_penalty)
    return best_first(outputs, joint)


def check_has_tagger(model: Writer | Ensemble) -> None:
    """Raise LabError if neither the model nor a member of the ensemble has a `Tagger`."""
    backward = model.backward if isinstance(model, TwoWayEnsemble) else model
    if not (_taggers(model) or _taggers(backward)):
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
