"""Several models as one: against the average by hand, by every search."""

from copy import deepcopy

import pytest
import torch
from beams import beam_search
from torch import Tensor
from toys import exact_toy, sharpened

from attention_lab.attention import Additive, Dot, Mechanism, ScaledDot, Softmax, Sparsemax, recording
from attention_lab.errors import LabError
from attention_lab.models import Ensemble, Seq2Seq, Transformer
from attention_lab.models.decoding.beam_search import Decodable, greedy
from attention_lab.models.ensemble import alignment_weights, mean_of
from attention_lab.models.transduction import TransductionModel
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS, EOS, PAD

SIZES = TransductionSizes(source_vocabulary=8, target_vocabulary=7)
SOURCE = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD], [5, 5, EOS, PAD]])
LENGTHS = torch.tensor([4, 2, 3])
TARGET = torch.tensor([[4, 5, EOS], [6, EOS, PAD], [5, 5, 5]])


def _seq2seq(seed: int, mechanism: Mechanism, **options: object) -> Seq2Seq:
    options = {"embedding_size": 4, "wiring": "bahdanau"} | options
    return sharpened(exact_toy(Seq2Seq, mechanism, SIZES, seed=seed, **options))


def _transformer(seed: int, **options: object) -> Transformer:
    options = {"layers": 1, "decoder_layers": 2, "tie_embedding": False} | options
    return sharpened(exact_toy(Transformer, ScaledDot, SIZES, seed=seed, **options))


MIXES = {
    "seeds": lambda: [_seq2seq(seed, Mechanism(Additive)) for seed in (1, 2)],
    "mechanisms": lambda: [
        _seq2seq(1, Mechanism(Additive), wiring="bahdanau"),
        _seq2seq(2, Mechanism(Dot, Sparsemax), wiring="luong", input_feeding=True, cell="gru", layers=2),
    ],
    "kinds": lambda: [_seq2seq(1, Mechanism(Additive, Softmax)), _transformer(2)],
}


class ByHand:
    """The average of the members, each run over the whole prefix anew; the state is the prefix."""

    def __init__(self, members: list[TransductionModel]) -> None:
        self.members = members

    def start(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return source, source_lengths, torch.zeros(len(source), 0, dtype=torch.int64)

    def step(
        self, tokens: Tensor, state: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        source, lengths, prefix = state
        prefix = torch.cat([prefix, tokens.unsqueeze(1)], 1)
        target = torch.nn.functional.pad(prefix[:, 1:], (0, 1), value=EOS)
        probabilities = [model(source, lengths, target)[:, -1].softmax(-1) for model in self.members]
        mean = sum(probabilities) / len(probabilities)
        return mean.log(), (source, lengths, prefix)

    def select(self, state: tuple[Tensor, Tensor, Tensor], index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return tuple(one[index] for one in state)


@pytest.mark.parametrize("mix", MIXES)
def test_it_generates_what_the_average_by_hand_generates(mix: str) -> None:
    members = MIXES[mix]()
    both, by_hand = Ensemble(members), ByHand(members)
    assert isinstance(both, Decodable)
    assert torch.equal(greedy(both, SOURCE, LENGTHS, 8), greedy(by_hand, SOURCE, LENGTHS, 8))
    for beams, alpha in ((3, 0.0), (4, 0.6)):
        ours, scores = beam_search(both, SOURCE, LENGTHS, 8, beams, alpha)
        expected, expected_scores = beam_search(by_hand, SOURCE, LENGTHS, 8, beams, alpha)
        assert torch.equal(ours, expected)
        torch.testing.assert_close(scores, expected_scores, rtol=0, atol=1e-10)


def test_the_members_change_the_output() -> None:
    members = MIXES["mechanisms"]()
    scores = [beam_search(model, SOURCE, LENGTHS, 8, 3)[1] for model in (*members, Ensemble(members))]
    assert not torch.allclose(scores[0], scores[2])
    assert not torch.allclose(scores[1], scores[2])


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("kind", ["seq2seq", "transformer"])
def test_of_one_it_is_that_one(kind: str, copies: int) -> None:
    model = _seq2seq(3, Mechanism(Additive)) if kind == "seq2seq" else _transformer(3)
    alone = Ensemble([deepcopy(model) for _ in range(copies)])
    assert torch.equal(greedy(alone, SOURCE, LENGTHS, 8), greedy(model, SOURCE, LENGTHS, 8))
    ours, expected = (beam_search(one, SOURCE, LENGTHS, 8, 3, 0.6) for one in (alone, model))
    assert torch.equal(ours[0], expected[0])
    torch.testing.assert_close(ours[1], expected[1], rtol=0, atol=1e-10)
    logits = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(alone(SOURCE, LENGTHS, TARGET), logits.log_softmax(-1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mix", MIXES)
def test_under_teacher_forcing_it_is_the_mean_and_equals_its_steps(mix: str) -> None:
    members = MIXES[mix]()
    both = Ensemble(members)
    found = both(SOURCE, LENGTHS, TARGET)
    mean = sum(model(SOURCE, LENGTHS, TARGET).softmax(-1) for model in members) / len(members)
    torch.testing.assert_close(found.exp(), mean, rtol=0, atol=1e-12)
    state = both.start(SOURCE, LENGTHS)
    before = torch.nn.functional.pad(TARGET[:, :-1], (1, 0), value=BOS)
    for place in range(TARGET.shape[1]):
        step, state = both.step(before[:, place], state)
        torch.testing.assert_close(step, found[:, place], rtol=0, atol=1e-10)


def test_the_mean_is_finite_where_probabilities_are_not() -> None:
    one, other = torch.tensor([[0.0, -1e4]]), torch.tensor([[-3e4, 0.0]])
    assert mean_of([one, other]).exp().tolist() == [[0.5, 0.5]]
    assert mean_of([one, one])[0, 1].item() == -1e4
    assert mean_of([one.half(), one.half()]).dtype == torch.float32


def test_every_member_is_recorded_and_all_are_compared_with_the_gold_alignment() -> None:
    members = MIXES["kinds"]()
    both = Ensemble(members)
    with recording(both) as weights:
        both(SOURCE, LENGTHS, TARGET)
    assert {name.split(".")[0] for name in weights} == {"member 1", "member 2"}
    each = []
    for model in members:
        with recording(model) as own:
            model(SOURCE, LENGTHS, TARGET)
        assert torch.equal(alignment_weights(model, own), own[model.alignment])
        each.append(own[model.alignment].mean(1))
    torch.testing.assert_close(alignment_weights(both, weights).squeeze(1), (each[0] + each[1]) / 2)


def test_outputs_are_as_long_as_every_member_can_generate() -> None:
    limited = _transformer(1, positions="learned")
    unlimited = _transformer(2)
    assert Ensemble([unlimited, limited, unlimited]).longest == limited.longest < unlimited.longest


def test_an_ensemble_of_none_is_refused() -> None:
    with pytest.raises(LabError, match="at least one model"):
        Ensemble([])
