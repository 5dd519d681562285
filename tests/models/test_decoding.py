"""Greedy and beam search: against exhaustive enumeration, against each other, on models written by hand."""

import math
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from beams import beam_search
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toys import exact_toy, sharpened

from attention_lab.attention import Additive
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.models.decoding.beam_search import greedy, penalty
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import BOS, EOS, PAD, UNK

A, B = 4, 5
SYMBOLS = 6
ONE = torch.tensor([1])


class Scripted:
    """A model of one source whose probabilities are written down for each prefix; its state is the prefix."""

    def __init__(self, script: dict[tuple[int, ...], dict[int, float]]) -> None:
        self.script, self.steps = script, 0

    def start(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        return torch.zeros(len(source), 0, dtype=torch.int64)

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.steps += 1
        state = torch.cat([state, tokens.unsqueeze(1)], 1)
        logits = torch.full((len(tokens), SYMBOLS), -math.inf)
        for row, (_, *prefix) in enumerate(state.tolist()):
            for symbol, probability in self.script.get(tuple(prefix), {EOS: 1.0}).items():
                logits[row, symbol] = math.log(probability)
        return logits, state

    def select(self, state: Tensor, index: Tensor) -> Tensor:
        return state[index]


def _seq2seq(seed: int, **options: Any) -> Seq2Seq:
    sizes = TransductionSizes(source_vocabulary=8, target_vocabulary=SYMBOLS)
    options = {"embedding_size": 4, "wiring": "bahdanau"} | options
    return sharpened(exact_toy(Seq2Seq, Additive, sizes, seed=seed, **options))


def _batch() -> tuple[Tensor, Tensor]:
    source = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD], [5, 5, EOS, PAD], [6, 4, 7, EOS]])
    return source, torch.tensor([4, 2, 3, 4])


def _scores(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    """Log-probabilities of the outputs `target`, each given the one source."""
    repeated = source.expand(len(target), -1)
    logits: Tensor = model(repeated, torch.full((len(target),), source.shape[1]), target)
    picked = logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return picked.masked_fill(target == PAD, 0.0).sum(-1)


def _all_outputs(longest: int) -> Tensor:
    """Every output that ends within `longest` symbols."""
    rows = [
        [*body, EOS] + [PAD] * (longest - length - 1)
        for length in range(longest)
        for body in product((UNK, A, B), repeat=length)
    ]
    return torch.tensor(rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_true_best(seed: int, alpha: float) -> None:
    model, longest = _seq2seq(seed, wiring="luong", input_feeding=True), 4
    source, lengths = _batch()
    tokens, scores = beam_search(model, source, lengths, longest, SYMBOLS**longest, alpha)
    outputs = _all_outputs(longest)
    divisors = torch.tensor([penalty(int(n), alpha) for n in (outputs != PAD).sum(-1)], dtype=torch.float64)
    for row, length in enumerate(lengths):
        true = _scores(model, source[row : row + 1, :length], outputs) / divisors
        best = int(true.argmax())
        output = torch.nn.functional.pad(tokens[row], (0, longest - tokens.shape[1]))
        assert output.tolist() == outputs[best].tolist()
        assert scores[row].item() == pytest.approx(true[best].item(), abs=1e-10)


@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from([0.0, 0.6, 1.0]))
@settings(max_examples=10)
def test_scores_are_the_models_own_and_any_beam_is_true(seed: int, beams: int, alpha: float) -> None:
    model, (source, lengths) = _seq2seq(seed), _batch()
    tokens, scores = beam_search(model, source, lengths, 6, beams, alpha)
    for row, length in enumerate(lengths):
        own = _scores(model, source[row : row + 1, :length], tokens[row : row + 1]).item()
        assert scores[row].item() == pytest.approx(
            own / penalty(int((tokens[row] != PAD).sum()), alpha), abs=1e-10
        )
        _well_formed(tokens[row], 6)


def _well_formed(outputs: Tensor, longest: int) -> None:
    ids = outputs.tolist()
    body = ids[: ids.index(EOS) + 1] if EOS in ids else [i for i in ids if i != PAD]
    assert 0 < len(body) <= longest
    assert PAD not in body
    assert BOS not in ids
    assert all(i == PAD for i in ids[len(body) :])


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0]))
@settings(max_examples=10)
def test_one_beam_is_greedy(seed: int, alpha: float) -> None:
    model, (source, lengths) = _seq2seq(seed, cell="gru"), _batch()
    tokens, _ = beam_search(model, source, lengths, 7, 1, alpha)
    assert torch.equal(tokens, greedy(model, source, lengths, 7))


@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
@pytest.mark.parametrize("seed", range(3))
def test_together_as_alone(wiring: str, seed: int) -> None:
    model, (source, lengths) = _seq2seq(seed, wiring=wiring), _batch()
    written = greedy(model, source, lengths, 8)
    tokens, scores = beam_search(model, source, lengths, 8, 3, 0.6)
    for row, length in enumerate(lengths):
        example = source[row : row + 1, :length], lengths[row : row + 1], 8
        for ours, alone in (
            (written, greedy(model, *example)),
            (tokens, beam_search(model, *example, 3, 0.6)[0]),
        ):
            size = alone.shape[1]
            assert torch.equal(ours[row, :size], alone[0])
            assert (ours[row, size:] == PAD).all()
        torch.testing.assert_close(
            scores[row], beam_search(model, *example, 3, 0.6)[1][0], rtol=0, atol=1e-10
        )


def test_a_beam_sees_past_a_tempting_first_step() -> None:
    script = {(): {A: 0.6, B: 0.4}, (A,): {A: 0.6, EOS: 0.4}, (B,): {EOS: 1.0}}
    source = torch.tensor([[A]])
    assert greedy(Scripted(script), source, ONE, 5).tolist() == [[A, A, EOS]]
    tokens, scores = beam_search(Scripted(script), source, ONE, 5, 2)
    assert tokens.tolist() == [[B, EOS]]
    assert scores.item() == pytest.approx(math.log(0.4))


def test_what_has_ended_is_not_lost_to_live_ones() -> None:
    # At the second step two live continuations are each above the one that ended at the first.
    script = {
        (): {A: 0.55, EOS: 0.45},
        (A,): {A: 0.5, B: 0.5},
        (A, A): {A: 0.6, B: 0.4},
        (A, B): {A: 0.6, B: 0.4},
    }
    tokens, scores = beam_search(Scripted(script), torch.tensor([[A]]), ONE, 6, 2)
    assert tokens.tolist() == [[EOS]]
    assert scores.item() == pytest.approx(math.log(0.45))


def test_the_search_ends_when_and_only_when_no_live_one_can_win() -> None:
    script = {(): {EOS: 0.5, A: 0.4, B: 0.1}, (A,): {A: 1.0}, (A, A): {A: 1.0}, (A, A, A): {EOS: 1.0}}
    source = torch.tensor([[A]])
    plain = Scripted(script)
    assert beam_search(plain, source, ONE, 10, 2, 0.0)[0].tolist() == [[EOS]]
    assert plain.steps == 1  # log 0.4 will not rise above log 0.5
    patient = Scripted(script)
    tokens, scores = beam_search(patient, source, ONE, 10, 2, 1.0)
    assert tokens.tolist() == [[A, A, A, EOS]]  # log 0.4 / 1.5 is above log 0.5
    assert scores.item() == pytest.approx(math.log(0.4) / 1.5)
    assert patient.steps < 10


def test_a_negative_penalty_does_not_end_the_search_too_soon() -> None:
    script: dict[tuple[int, ...], dict[int, float]] = {(): {A: 0.6, EOS: 0.4}}
    tokens, scores = beam_search(Scripted(script), torch.tensor([[A]]), ONE, 30, 2, -3.0)
    assert tokens.tolist() == [[A, EOS]]  # one symbol longer it could not win, as short as possible it does
    assert scores.item() == pytest.approx(math.log(0.6) * (7 / 6) ** 3)


def test_length_penalty_by_hand() -> None:
    assert penalty(7, 0.0) == 1.0
    assert penalty(7, 1.0) == 2.0
    assert penalty(19, 0.5) == 2.0


def test_a_beam_is_no_wider_than_there_are_hypotheses() -> None:
    model, longest = _seq2seq(0), 3
    source, lengths = (part[:1] for part in _batch())
    wide = beam_search(model, source, lengths, longest, SYMBOLS**longest)
    endless = beam_search(model, source, lengths, longest, 10**9)
    assert all(map(torch.equal, wide, endless))


def test_padding_and_begin_are_never_generated_and_keep_their_share() -> None:
    script = {(): {PAD: 0.5, BOS: 0.3, A: 0.2}, (A,): {PAD: 0.9, EOS: 0.1}}
    source = torch.tensor([[A]])
    assert greedy(Scripted(script), source, ONE, 5).tolist() == [[A, EOS]]
    tokens, scores = beam_search(Scripted(script), source, ONE, 5, 3)
    assert tokens.tolist() == [[A, EOS]]
    assert scores.item() == pytest.approx(math.log(0.2 * 0.1))


def test_an_output_without_end_stops_at_the_bound() -> None:
    script = {(A,) * n: {A: 0.7, B: 0.3} for n in range(9)}
    source = torch.tensor([[A]])
    assert greedy(Scripted(script), source, ONE, 4).tolist() == [[A] * 4]
    tokens, scores = beam_search(Scripted(script), source, ONE, 3, 1)
    assert tokens.tolist() == [[A] * 3]
    assert scores.item() == pytest.approx(3 * math.log(0.7))
    # (B, EOS) ends, so the likelier A A A, which does not, is no output.
    assert beam_search(Scripted(script), source, ONE, 3, 3)[0].tolist() == [[B, EOS]]


def test_decoding_keeps_no_graph_and_the_models_mode() -> None:
    model, (source, lengths) = _seq2seq(0).train(), _batch()
    _, scores = beam_search(model, source, lengths, 4, 2)
    assert not scores.requires_grad
    assert model.training


@pytest.mark.parametrize(("longest", "beams", "named"), [(0, 1, "max_length"), (3, 0, "beam_size")])
def test_impossible_bounds_are_refused(longest: int, beams: int, named: str) -> None:
    model, (source, lengths) = _seq2seq(0), _batch()
    with pytest.raises(LabError, match=f"{named} must be at least 1"):
        beam_search(model, source, lengths, longest, beams)
    with pytest.raises(LabError, match="max_length must be at least 1, got 0"):
        greedy(model, source, lengths, torch.arange(len(lengths)))


@pytest.mark.parametrize("beams", [0, 1, 2])
@pytest.mark.parametrize("place", [(), (A,)])
def test_logits_that_are_nan_are_an_error(beams: int, place: tuple[int, ...]) -> None:
    model = Scripted({(): {A: 0.9, EOS: 0.1}} | {place: {A: math.nan}})
    search = greedy if beams == 0 else partial(beam_search, beam_size=beams)
    with pytest.raises(LabError, match=r"^Scripted gives logits that are NaN: no symbol can be chosen$"):
        search(model, ONE.unsqueeze(1), ONE, 5)


def test_a_limit_for_each_source_is_kept_whatever_its_company() -> None:
    """A chain that may end early or after 20 symbols, beside one with room for all of it."""
    script = {(A,) * n: {A: 0.9, EOS: 0.1} for n in range(20)}
    source = torch.zeros(2, 1, dtype=torch.long)
    alone, score = beam_search(Scripted(script), source[:1], ONE, torch.tensor([4]), 4)
    together, scores = beam_search(Scripted(script), source, ONE.expand(2), torch.tensor([4, 30]), 4)
    assert together[0, : alone.shape[1]].tolist() == alone[0].tolist() == [EOS]
    assert not together[0, alone.shape[1] :].any()
    assert together[1].tolist() == [A] * 20 + [EOS]
    assert scores[0] == score[0]
    greedily = greedy(Scripted(script), source, ONE.expand(2), torch.tensor([4, 30]))
    assert greedily.tolist() == [[A] * 4 + [PAD] * 17, [A] * 20 + [EOS]]


def test_finished_sources_are_not_decoded_any_further(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _seq2seq(1, wiring="luong", input_feeding=True)
    source, lengths = _batch()
    limits = torch.tensor([6, 1, 1, 6])
    rows, step = [], model.step

    def counted(tokens: Tensor, state: Any) -> Any:
        rows.append(len(tokens))
        return step(tokens, state)

    alone = [
        beam_search(model, source[[n]], lengths[[n]], limits[[n]], 3)[0][0].tolist()
        for n in range(len(source))
    ]
    monkeypatch.setattr(model, "step", counted)
    together, _ = beam_search(model, source, lengths, limits, 3)
    assert [[one for one in output if one != PAD] for output in together.tolist()] == alone
    assert rows[0] == 4
    assert max(rows[1:]) == 6  # two sources, three hypotheses each


def test_states_are_reordered_within_a_source_as_they_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _seq2seq(2)
    source, lengths = _batch()
    quick = beam_search(model, source, lengths, 6, 4)
    monkeypatch.setattr(model, "reorder", model.select)
    slow = beam_search(model, source, lengths, 6, 4)
    assert torch.equal(quick[0], slow[0])
    assert torch.equal(quick[1], slow[1])
