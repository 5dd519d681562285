"""Ensembles of both directions, against all possible outputs, each scored by hand."""

from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
from saved_models import transduction
from torch import Tensor
from toys import exact_toy, toy

import attention_lab
from attention_lab.attention import Location, recording
from attention_lab.data import Inflection, codec_from_state
from attention_lab.errors import LabError
from attention_lab.files.run_files import RECIPE
from attention_lab.models import Ensemble, Seq2Seq, Transformer, TwoWayEnsemble
from attention_lab.models.decoding.beam_search import penalty
from attention_lab.models.decoding.rescoring import check_has_ctc_head, rescore
from attention_lab.models.decoding.two_way_search import two_way_search
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS, EOS, PAD, UNK

TINY = TransductionSizes(source_vocabulary=9, target_vocabulary=5, tags=2)
SOURCE = torch.tensor([[7, 4, 5, 6, EOS], [5, 4, EOS, PAD, PAD], [8, 7, 6, 4, EOS]])  # 7 and 8 are tags
TURNED = torch.tensor([[7, 6, 5, 4, EOS], [4, 5, EOS, PAD, PAD], [8, 7, 4, 6, EOS]])
LENGTHS = torch.tensor([5, 3, 5])
LONGEST = 3


def _members() -> tuple[list[Seq2Seq], list[Seq2Seq | Transformer]]:
    forward = [
        exact_toy(Seq2Seq, sizes=TINY, seed=seed, ctc_frames=frames) for seed, frames in ((1, 0), (2, 3))
    ]
    backward = [
        exact_toy(Transformer, sizes=TINY, seed=3),
        exact_toy(Seq2Seq, sizes=TINY, seed=4, ctc_frames=3),
    ]
    return forward, backward


def _scores(members: list, source: Tensor, length: Tensor, outputs: list[tuple[int, ...]]) -> Tensor:
    target = torch.tensor([[*symbols, EOS] for symbols in outputs])
    source, length = source.expand(len(target), -1), length.expand(len(target))
    mean = sum(model(source, length, target).softmax(-1) for model in members) / len(members)
    return mean.log().gather(2, target.unsqueeze(2)).sum((1, 2))


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "count_there"), [(0.0, 2), (1.0, 1)])
@torch.no_grad()
def test_the_best_outputs_of_both_directions(alpha: float, count_there: int) -> None:
    """Each direction counts as much as it has models."""
    forward, backward = _members()
    forward, share = forward[:count_there], count_there / (count_there + 2)
    both = TwoWayEnsemble(forward, backward, tags=[7, 8])
    outputs, scores = two_way_search(both, SOURCE, LENGTHS, LONGEST, 16, alpha)
    for row in range(len(SOURCE)):
        of_row = slice(row, row + 1)
        expected = {}
        for count in range(LONGEST):
            some = list(product((UNK, 4), repeat=count))
            there = _scores(forward, SOURCE[of_row], LENGTHS[of_row], some)
            back = _scores(backward, TURNED[of_row], LENGTHS[of_row], [symbols[::-1] for symbols in some])
            mean = share * there + (1 - share) * back
            for symbols, score in zip(some, mean.tolist(), strict=True):
                expected[*symbols, EOS] = score / penalty(count + 1, alpha)
        best = sorted(expected, key=expected.__getitem__, reverse=True)
        found = scores[row] > -torch.inf
        assert [tuple(ids[ids != PAD].tolist()) for ids in outputs[row, found]] == best
        assert scores[row, found].tolist() == pytest.approx([expected[ids] for ids in best], abs=1e-5)


@torch.no_grad()
def test_both_directions_read_with_ctc() -> None:
    forward, backward = _members()
    both = TwoWayEnsemble(forward, backward, tags=[7, 8])
    check_has_ctc_head(both)
    check_has_ctc_head(TwoWayEnsemble(forward[:1], backward, tags=[7, 8]))
    with pytest.raises(LabError, match="CTC output"):
        check_has_ctc_head(TwoWayEnsemble(forward[:1], backward[:1], tags=[7, 8]))
    outputs, scores = two_way_search(both, SOURCE, LENGTHS, LONGEST, 16)
    outputs, scores = outputs[:, :7], scores[:, :7]  # the others were found twice
    ordered, joint = rescore(both, SOURCE, LENGTHS, outputs, scores, 0.5)
    scored = {tuple(ids.tolist()): float(score) for ids, score in zip(outputs[0], scores[0], strict=True)}
    for ids, found in zip(ordered[0], joint[0].tolist(), strict=True):
        if found == -torch.inf:
            continue
        back = torch.tensor([*ids[ids > EOS].tolist()[::-1], EOS])
        read = 0.0
        for model, source, target in (
            (forward[1], SOURCE[:1], ids[ids != PAD]),
            (backward[1], TURNED[:1], back),
        ):
            encoded = model.encode(source, LENGTHS[:1])
            read += float(model.tagger.log_likelihood(encoded.keys, encoded.mask, target.view(1, 1, -1))) / 2
        assert found == pytest.approx((scored[tuple(ids.tolist())] + read) / 2, abs=1e-5)


def test_step_by_step_it_is_the_models_from_left_to_right() -> None:
    forward, backward = _members()
    both, alone = TwoWayEnsemble(forward, backward, tags=[7, 8]), Ensemble(forward)
    assert both.members == forward
    target = torch.tensor([[4, EOS]]).expand(3, -1)
    with recording(both) as weights:
        assert torch.equal(both(SOURCE, LENGTHS, target), alone(SOURCE, LENGTHS, target))
    assert {name.split(".")[0] for name in weights} == {"member 1", "member 2"}
    begin = torch.full((3,), BOS)
    step, _ = both.step(begin, both.start(SOURCE, LENGTHS))
    torch.testing.assert_close(step, alone(SOURCE, LENGTHS, target)[:, 0])


def test_an_output_is_one_that_both_directions_can_generate() -> None:
    short, long = (toy(Transformer, partial(Location, length=length), TINY) for length in (3, 5))
    for forward, backward in ((short, long), (long, short)):
        assert TwoWayEnsemble([forward], [backward], tags=[7, 8]).longest == 3


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
def test_checkpoints_of_both_directions_in_any_order(beams: int, tmp_path) -> None:
    task = transduction(beam_size=beams)
    paths = [tmp_path / "there.ckpt", tmp_path / "back.ckpt"]
    state = {**task.recipe["codec"]}
    for path, turned in zip(paths, ({}, {"right_to_left": True}), strict=True):
        codec = state | {side: {**state[side], **turned} for side in ("source", "target")}
        torch.save({RECIPE: {**task.recipe, "codec": codec}, "state_dict": task.state_dict()}, path)
    words = ["hello", "attention", "a"]
    back = attention_lab.load(paths[1])
    plain = attention_lab.load(paths[0])
    turned_words = plain.predict([word[::-1] for word in words])
    assert back.predict(words) == [" ".join(text.split()[::-1]) for text in turned_words]
    found = []
    for order in (paths, paths[::-1]):
        both = attention_lab.load(order)
        assert isinstance(both.model, TwoWayEnsemble) and not both.codec.target.notation.right_to_left
        found.append((both.predict(words), both.predict_n_best(words, 2)))
        best = [outputs[0][0] for outputs in found[-1][1]]
        assert beams < 2 or found[-1][0] == best
        assert both.observe(words[:1])[0].output == found[-1][0][0]
    assert found[0] == found[1]
    copied = tmp_path / "copied.ckpt"
    copied.write_bytes(paths[1].read_bytes())
    alone = attention_lab.load([paths[1], copied])
    assert type(alone.model) is Ensemble and alone.predict(words) == back.predict(words)


def test_sources_are_those_that_the_other_direction_was_trained_on(tmp_path: Path) -> None:
    """With known and unknown tags and letters, and known forms."""
    (tmp_path / "train").write_text("gehen\tging\tV;PST\ngehen\tgeht\tV;3\nsehen\tsah\tV;PST\n")
    codecs = []
    for turned in (False, True):
        data = Inflection(*[str(tmp_path / "train")] * 3, known_forms=1, right_to_left=turned)
        data.setup()
        codecs.append(data.codec)
    plain, back = codecs
    symbols = plain.source.vocabulary.symbols
    tags = plain.source.vocabulary.ids(filter(plain.source.notation.keeps_place, symbols))
    forward, backward = _members()
    both = TwoWayEnsemble(forward, backward, tags)
    lines = ["gehen\tV;PST", "gähen\tV;NEW", "x\tNEW;V\tgeht\tV;3"]
    batch = plain.encode(lines)
    assert torch.equal(both.directions(batch.source)[1].source, back.encode(lines).source)


def test_codecs_of_two_directions_are_refused() -> None:
    state = transduction().recipe["codec"]
    with pytest.raises(LabError, match="different directions"):
        codec_from_state(state | {"source": state["source"] | {"right_to_left": True}})


@pytest.mark.parametrize("ends", [True, False])
def test_an_output_that_did_not_end_is_the_last_resort(ends: bool) -> None:
    forward, backward = _members()
    forward, backward = forward[:1], backward[1:]
    for model, bias in ((forward[0], -1e3), (backward[0], 50.0 if ends else -1e3)):
        model.decoder.output.bias.data[EOS] = bias
    both = TwoWayEnsemble(forward, backward, tags=[7, 8])
    outputs, scores = two_way_search(both, SOURCE, LENGTHS, LONGEST, 1)
    for ids, found in zip(outputs, scores, strict=True):
        assert [EOS in one for one in ids[found > -torch.inf]] == ([True] if ends else [False] * 2)
