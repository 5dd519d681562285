"""Rescoring with CTC, against the formula with a sum over all frames; decoding with it, from end to end."""

import math

import pytest
import torch
from saved_models import SEQ2SEQ, transduction
from toys import LENGTHS, SOURCE, exact_toy

from attention_lab.errors import LabError
from attention_lab.models import Ensemble, Seq2Seq, Transformer
from attention_lab.models.decoding.beam_search import penalty
from attention_lab.models.decoding.rescoring import rescore
from attention_lab.special_symbols import EOS, PAD
from attention_lab.tasks import Transduction

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
        assert joint[row].tolist() == pytest.approx([expected[ids] for ids in best], rel=1e-10)


@torch.no_grad()
def test_an_ensemble_has_the_mean_of_the_members_with_a_tagger() -> None:
    able = [exact_toy(Seq2Seq, ctc_frames=3, seed=seed) for seed in (1, 2)]
    ensemble = Ensemble([*able, exact_toy(Seq2Seq)]).eval()
    outputs = torch.tensor([WRITTEN] * len(SOURCE))
    found, joint = rescore(ensemble, SOURCE, LENGTHS, outputs, torch.zeros(3, 3).double(), weight=1.0)
    ids = [one for one in found[1, 0].tolist() if one > EOS]
    expected = sum(_read(member, 1, ids) for member in able) / len(able)
    assert float(joint[1, 0]) == pytest.approx(expected, rel=1e-10)
    with pytest.raises(LabError, match="or train seq2seq or transformer with model"):
        rescore(ensemble.members[2], SOURCE, LENGTHS, outputs, torch.zeros(3, 3), weight=0.5)


@torch.no_grad()
def test_outputs_that_need_more_frames_are_left_out_unless_all_do() -> None:
    model = exact_toy(Seq2Seq, ctc_frames=1)
    long, short, missing = [4, 5, 6, 7, EOS], [4, EOS, PAD, PAD, PAD], [PAD] * 5
    outputs = torch.tensor([[missing, long, short], [missing, long, long]])
    scores = torch.tensor([[-torch.inf, -1.0, -9.0], [-torch.inf, -1.0, -2.0]])
    found, joint = rescore(
        model, SOURCE[1:2, :3].repeat(2, 1), LENGTHS[1:2].repeat(2), outputs, scores, 0.001
    )
    assert found[0].tolist()[0] == short
    assert joint[0, 1:].tolist() == [-torch.inf] * 2
    assert found[1].tolist() == [long, long, missing]
    assert joint[1].tolist() == pytest.approx([0.999 * -1, 0.999 * -2, -torch.inf])


def test_padding_and_the_other_sources_do_not_matter() -> None:
    model = exact_toy(Seq2Seq, ctc_frames=3)
    outputs, scores = torch.tensor([WRITTEN] * 3), torch.zeros(3, 3, dtype=torch.float64)
    _, together = rescore(model, SOURCE, LENGTHS, outputs, scores, 0.5)
    for row, length in enumerate(LENGTHS.tolist()):
        one = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1], outputs[:1], scores[:1]
        torch.testing.assert_close(rescore(model, *one, 0.5)[1], together[row : row + 1])


def _task(**options: object) -> Transduction:
    return transduction({**SEQ2SEQ, "ctc_frames": 3}, ctc=0.3, **options).eval()


def test_decoding_gives_the_best_of_the_beam_after_rescoring() -> None:
    task, plain = _task(beam_size=4, ctc_rescoring=0.9), _task(beam_size=4)
    batch = task.codec.encode(["hello", "bees", "yellow", "u"])
    best = task.answer(batch)
    assert best != plain.answer(batch)
    every, two, six = (task.n_best_answers(batch, n) for n in (4, 2, 6))
    assert best == [found[0][0] for found in every]
    assert two == [found[:2] for found in every]
    assert max(len(found) for found in six) == 6
    for found in (*every, *six):
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)
    for found, before in zip(every, plain.n_best_answers(batch, 4), strict=True):
        assert {text for text, _ in found} <= {text for text, _ in before}
    one = _task(ctc_rescoring=0.9)
    assert one.answer(batch) == _task().answer(batch)  # a single beam leaves nothing to choose


def test_what_cannot_be_rescored_is_refused() -> None:
    with pytest.raises(LabError, match="must be from 0 to 1, got 1"):
        _task(ctc_rescoring=1.5)
    with pytest.raises(LabError, match="needs the CTC output of an encoder"):
        transduction(ctc_rescoring=0.5).setup("fit")
    _task(ctc_rescoring=0.5).setup("fit")
