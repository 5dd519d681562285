"""Decode with models of both directions, which score each other's outputs."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attention_lab.models.decoding.n_best import n_best_search
from attention_lab.models.decoding.search import Decodable, best_first, penalized
from attention_lab.models.ensemble import Ensemble, Writer
from attention_lab.models.two_way import TwoWayEnsemble, directions
from attention_lab.sizes import EOS, PAD


@torch.no_grad()
def two_way_search(
    model: TwoWayEnsemble,
    source: Shaped[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
    beam_size: int,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    """The outputs that a beam search finds in either direction, by the mean of both directions' scores.

    This is the joint search of Liu et al. (2016, NAACL, N16-1046): the union of both n-best lists, rescored
    by both models. For the shares of the directions see `TwoWayEnsemble`.

    Args:
        model: the models.
        source: symbols, padded.
        source_lengths: their lengths.
        max_length: most symbols of an output, including EOS; one number or one for each source.
        beam_size: hypotheses in each direction.
        length_penalty: alpha of `penalty`.

    Returns:
        Symbols from left to right, each sequence up to EOS and then PAD, the best first, and scores: -inf
        for what does not count, such as an output that both directions found, the second time.
    """
    found, scored = [], []
    for direction in directions(model, source):
        one_way: Decodable[Any] = direction.model
        outputs, scores = n_best_search(
            one_way,
            direction.source,
            source_lengths,
            max_length,
            beam_size,
            beam_size,
            length_penalty,
        )
        found.append(direction.outputs(outputs))
        scored.append(scores > -torch.inf)
    outputs, exists = torch.cat(found, 1), torch.cat(scored, 1)
    outputs = outputs[..., : int((outputs != PAD).sum(-1).max())]
    ended = exists & (outputs == EOS).any(-1)
    exists = torch.where(ended.any(1, keepdim=True), ended, exists) & ~_repeated(outputs)
    joint = torch.zeros(outputs.shape[:2], device=outputs.device)
    for direction in directions(model, source):
        joint += direction.share * _log_likelihood(
            direction.model, direction.source, source_lengths, direction.outputs(outputs)
        )
    joint = penalized(joint, outputs, length_penalty)
    return best_first(outputs, joint.masked_fill(~exists, -torch.inf))


def _log_likelihood(
    model: Writer | Ensemble, source: Tensor, source_lengths: Tensor, outputs: Int[Tensor, "B n T"]
) -> Float[Tensor, "B n"]:
    """`log p(y | x)` of each output."""
    each = []
    for target in outputs.unbind(1):  # one after the other: as much memory as one of them needs
        logits = model(source, source_lengths, target)
        symbols = logits.float().log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        each.append(symbols.masked_fill(target == PAD, 0.0).sum(-1))
    return torch.stack(each, 1)


def _repeated(outputs: Int[Tensor, "B n T"]) -> Bool[Tensor, "B n"]:
    """Whether an output equals an earlier one of the same source."""
    found = torch.zeros(outputs.shape[:2], dtype=torch.bool)
    for row, texts in enumerate(outputs.tolist()):
        seen: set[tuple[int, ...]] = set()
        for place, text in enumerate(map(tuple, texts)):
            found[row, place] = text in seen
            seen.add(text)
    return found.to(outputs.device)
