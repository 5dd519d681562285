"""Decode with models of both directions, which score each other's outputs."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_lab.models.decoding.beam_search import best_first, n_best_search, penalized, trimmed
from attention_lab.models.ensemble import mean_of
from attention_lab.models.two_way import Direction, TwoWayEnsemble
from attention_lab.special_symbols import EOS, PAD


@torch.no_grad()
def two_way_search(
    model: TwoWayEnsemble,
    source: Int[Tensor, "B S"],
    source_lengths: Int[Tensor, " B"],
    max_length: int | Int[Tensor, " B"],
    beam_size: int,
    length_penalty: float = 0.0,
) -> tuple[Int[Tensor, "B n T"], Float[Tensor, "B n"]]:
    """The outputs that a beam search finds in either direction, ranked by the scores of both.

    This is the joint search of Liu et al. (2016, NAACL, N16-1046): the union of both n-best lists, rescored
    by both directions. `TwoWayEnsemble` gives the weight of each direction.

    Args:
        model: the models.
        source: symbols, padded.
        source_lengths: their lengths.
        max_length: maximum length of an output in symbols, including EOS; one number, or one for each source.
        beam_size: number of hypotheses in each direction.
        length_penalty: alpha of `penalty`.

    Returns:
        Symbols from left to right, each sequence up to EOS and then PAD, best first, and scores: -inf for
        outputs to be ignored, such as the second copy of one that both directions found.
    """
    directions = model.directions(source)
    found, scored = [], []
    for one in directions:
        outputs, scores = n_best_search(
            one.model, one.source, source_lengths, max_length, beam_size, beam_size, length_penalty
        )
        found.append(one.outputs(outputs))
        scored.append(scores > -torch.inf)
    outputs, exists = trimmed(torch.cat(found, 1)), torch.cat(scored, 1)
    ended = exists & (outputs == EOS).any(-1)
    exists = torch.where(ended.any(1, keepdim=True), ended, exists) & ~_repeated(outputs)
    likelihoods = [one.share * _log_likelihood(one, source_lengths, outputs) for one in directions]
    joint = penalized(torch.stack(likelihoods).sum(0), outputs, length_penalty)
    return best_first(outputs, joint.masked_fill(~exists, -torch.inf))


def _log_likelihood(
    direction: Direction, source_lengths: Tensor, outputs: Int[Tensor, "B n T"]
) -> Float[Tensor, "B n"]:
    """`log p(y | x)` of each output."""
    members = direction.model.members
    encoded = [member.encode(direction.source, source_lengths) for member in members]
    each = []
    for target in direction.outputs(outputs).unbind(1):  # one at a time, to save memory
        logits = [member.read(memory, target) for member, memory in zip(members, encoded, strict=True)]
        symbols = mean_of(logits).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        each.append(symbols.masked_fill(target == PAD, 0.0).sum(-1))
    return torch.stack(each, 1)


def _repeated(outputs: Int[Tensor, "B n T"]) -> Bool[Tensor, "B n"]:
    """Whether an output equals an earlier one of the same source."""
    found = torch.zeros(outputs.shape[:2], dtype=torch.bool)
    for row, texts in enumerate(outputs.tolist()):
        seen: set[tuple[int, ...]] = set()
        for column, text in enumerate(map(tuple, texts)):
            found[row, column] = text in seen
            seen.add(text)
    return found.to(outputs.device)
