"""Rescoring with the encoder's own opinion, against the formula with a sum over all frames."""

import math

import pytest
import torch
from toys import LENGTHS, SOURCE, exact_toy

from attention_lab.models import Ensemble, Seq2Seq, Transformer
from attention_lab.models.decoding import penalty
from attention_lab.models.rescoring import IMPOSSIBLE, has_tagger, rescore
from attention_lab.sizes import EOS, PAD

WRITTEN = [[4, 5, 5, 4, EOS], [6, EOS, PAD, PAD, PAD], [4, 5, 6, EOS, PAD]]


def _read(model, row: int, ids: list[int]) -> float:
    """The logarithm of the probability that the encoder alone writes `ids`, by the forward recursion."""
    source, lengths = SOURCE[row : row + 1, : LENGTHS[row]], LENGTHS[row : row + 1]
    frames = model.tagger(model.encode(source, lengths).keys)[0].softmax(-1).tolist()
    blanked = [PAD] + [symbol for one in ids for symbol in (one, PAD)]
    alpha = [1.0] + [0.0] * (len(blanked) - 1)
    for number, frame in enumerate(frames):
        before = alpha
        alpha = []
        for place, symbol in enumerate(blanked):
            total = before[place] + (before[place - 1] if place else 0.0) * (number > 0 or place == 1)
            if place > 1 and symbol not in (PAD, blanked[place - 2]):
                total += before[place - 2] * (number > 0)
            alpha.append(total * frame[symbol])
    return math.log(sum(alpha[-2:]))


@pytest.mark.parametrize("kind", [Seq2Seq, Transformer])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@torch.no_grad()
def test_the_score_is_that_of_decoder_and_encoder_together(kind, alpha: float) -> None:
    model = exact_toy(kind, ctc_frames=3)
    outputs = torch.tensor([WRITTEN] * len(SOURCE))
    scores = torch.tensor([[-1.0, -1.5, -2.0]] * len(SOURCE), dtype=torch.float64)
    found, joint = rescore(model, SOURCE, LENGTHS, outputs, scores, weight=0.3, length_penalty=alpha)
    for row in range(len(SOURCE)):
        expected = {}
        for ids, score in zip(WRITTEN, scores[row].tolist(), strict=True):
            read = _read(model, row, [one for one in ids if one > EOS])
            expected[tuple(ids)] = 0.7 * score + 0.3 * read / penalty(sum(one != PAD for one in ids), alpha)
        best = sorted(expected, key=expected.__getitem__, reverse=True)
        assert [tuple(ids) for ids in found[row].tolist()] == best
        assert joint[row].tolist() == pytest.approx([expected[ids] for ids in best], rel=1e-5)


@torch.no_grad()
def test_an_ensemble_asks_the_members_that_can_tell() -> None:
    able = [exact_toy(Seq2Seq, ctc_frames=3, seed=seed) for seed in (1, 2)]
    ensemble = Ensemble([*able, exact_toy(Seq2Seq)]).eval()
    outputs = torch.tensor([WRITTEN] * len(SOURCE))
    found, joint = rescore(ensemble, SOURCE, LENGTHS, outputs, torch.zeros(3, 3), weight=1.0)
    ids = [one for one in found[1, 0].tolist() if one > EOS]
    expected = sum(_read(member, 1, ids) for member in able) / len(able)
    assert float(joint[1, 0]) == pytest.approx(expected, rel=1e-5)
    assert has_tagger(ensemble)
    assert not has_tagger(ensemble.members[2])


@torch.no_grad()
def test_what_does_not_fit_into_the_frames_comes_last_and_what_does_not_count_stays_out() -> None:
    model = exact_toy(Seq2Seq, ctc_frames=1)
    long, short, missing = [4, 5, 6, 7, EOS], [4, EOS, PAD, PAD, PAD], [PAD] * 5
    outputs = torch.tensor([[missing, long, short]])
    scores = torch.tensor([[-torch.inf, -1.0, -9.0]])
    found, joint = rescore(model, SOURCE[1:2, :3], LENGTHS[1:2], outputs, scores, weight=0.1)
    assert found[0].tolist() == [short, long, missing]
    assert joint[0, 1] == pytest.approx(0.9 * -1.0 + 0.1 * IMPOSSIBLE)
    assert joint[0, 2] == -torch.inf
