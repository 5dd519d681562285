"""Rescore the outputs of a beam search with the CTC probabilities of the encoder."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.models.decoding.beam_search import best_first, penalized
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.models.transduction import TransductionModel
from attention_lab.models.two_way import TwoWayEnsemble


@torch.no_grad()
def rescore(
    model: TransductionModel | Ensemble,
    source: Shaped[Tensor, " B *source"],
    source_lengths: Int[Tensor, " B"],
    outputs: Int[Tensor, "B n T"],
    scores: Float[Tensor, "B n"],
    weight: float,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    """Reorder the outputs of a search by a score that combines decoder and encoder.

        ((1 - weight) log p_att(y | x) + weight log p_ctc(y | x)) / lp(y)

    This is the rescoring of joint CTC/attention decoding (Hori et al. 2017, ACL, P17-1048). The decoder may
    skip or repeat part of the source; the `CTCHead` reads each part exactly once, but predicts each symbol
    independently of its neighbours. In an ensemble, `log p_ctc` is the mean over all members
    that have a `CTCHead`, of both directions.

    An output that needs more frames than its source has gets the score -inf. If this is true of all outputs
    of a source, for example because there are too few frames per symbol, the decoder alone decides. CTC never
    learns to predict unknown symbols, so it votes against copies of them.

    Args:
        model: the model or ensemble that found the outputs.
        source: symbols or images, padded.
        source_lengths: their lengths.
        outputs: the outputs of a search, see `n_best_search`.
        scores: their scores, -inf for outputs to be ignored.
        weight: lambda, above 0 and at most 1.
        length_penalty: alpha of the search.

    Returns:
        Outputs and scores, best first.

    Raises:
        LabError: the model has no `CTCHead`.
    """
    check_has_ctc_head(model)
    if isinstance(model, TwoWayEnsemble):
        ways = [(one.model.members, one.source, one.outputs(outputs)) for one in model.directions(source)]
    else:
        ways = [(_members(model), source, outputs)]
    each = []
    for members, sources, targets in ways:
        for member, head in _ctc_heads(members):
            encoded = member.encode(sources, source_lengths)
            each.append(head.log_likelihood(encoded.keys, encoded.mask, targets))
    read = torch.stack(each).mean(0)
    impossible = (read == -torch.inf) | (scores == -torch.inf)
    read = read.where(~impossible.all(-1, keepdim=True), 0.0)
    joint = (1 - weight) * scores + weight * penalized(read.to(scores), outputs, length_penalty)
    return best_first(outputs, joint)


def check_has_ctc_head(model: TransductionModel | Ensemble) -> None:
    """Raise LabError if neither the model nor a member of the ensemble has a `CTCHead`."""
    if not _ctc_heads(_members(model)):
        raise LabError(
            "task.ctc_rescoring needs the CTC output of an encoder, which this model was built without: "
            "set task.ctc_rescoring=0, or train seq2seq or transformer with model.ctc_frames=3 task.ctc=0.3"
        )


def _members(model: TransductionModel | Ensemble) -> list[TransductionModel]:
    return model.all_members if isinstance(model, Ensemble) else [model]


def _ctc_heads(models: Sequence[TransductionModel]) -> list[tuple[TransductionModel, CTCHead]]:
    """The models that have a `CTCHead`, each with its head."""
    # A user-defined model may lack the attribute.
    found = [(model, getattr(model, "tagger", None)) for model in models]
    return [(model, head) for model, head in found if head is not None]
