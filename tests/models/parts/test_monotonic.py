"""Exact hard monotonic attention against the sum over all paths, written out."""

import itertools

import pytest
import torch
from beams import beam_search
from torch import Tensor
from toys import toy

from attention_lab.attention import Mechanism, Monotonic, ScaledDot, recording
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.models.decoding.beam_search import greedy
from attention_lab.models.parts.monotonic import NEVER, log_tail, monotonic_prior
from attention_lab.special_symbols import EOS, PAD

SOURCE, LENGTHS = torch.tensor([[4, 5, 6, EOS], [6, EOS, PAD, PAD]]), torch.tensor([4, 2])
TARGET = torch.tensor([[5, 4, EOS], [4, EOS, PAD]])


def _model(**options: object) -> Seq2Seq:
    model: Seq2Seq = toy(Seq2Seq, Mechanism(ScaledDot, pooling=Monotonic), wiring="luong", **options)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model.eval()


def test_a_step_by_hand() -> None:
    """Weights 1/2, 1/4, 1/4; the last position is 0 or 1 with one half each."""
    belief = torch.tensor([0.5, 0.5, 1e-30]).log().clamp_min(NEVER)
    weights = torch.tensor([0.5, 0.25, 0.25]).log()
    prior = monotonic_prior(belief, weights, log_tail(weights)).exp()
    torch.testing.assert_close(prior, torch.tensor([0.25, 0.125 + 0.25, 0.125 + 0.25]))


@pytest.mark.parametrize("row", [0, 1])
def test_equals_the_sum_over_all_monotonic_paths(row: int) -> None:
    model = _model()
    size, steps = int(LENGTHS[row]), int((TARGET[row] != PAD).sum())
    one = SOURCE[row : row + 1, :size], LENGTHS[row : row + 1], TARGET[row : row + 1, :steps]
    weights, logits = (x[0] for x in model.enumerate(*one))
    likelihood = logits.log_softmax(-1)
    total = torch.zeros(())
    for path in itertools.product(range(size), repeat=steps):
        if any(later < earlier for earlier, later in itertools.pairwise(path)):
            continue
        probability: Tensor = torch.ones(())
        for t, s in enumerate(path):
            first = 0 if t == 0 else path[t - 1]
            probability = probability * weights[t, s] / weights[t, first:].sum()
            probability = probability * likelihood[t, s, one[2][0, t]].exp()
        total = total + probability
    output = model(SOURCE, LENGTHS, TARGET)[row, :steps]  # in a batch with padding
    found = output.gather(-1, TARGET[row, :steps, None]).sum()
    torch.testing.assert_close(found, total.log(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output.exp().sum(-1), torch.ones(steps))
    parameters = list(model.parameters())
    got = torch.autograd.grad(found, parameters, allow_unused=True, retain_graph=True)
    want = torch.autograd.grad(total.log(), parameters, allow_unused=True)
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_double_precision_is_kept() -> None:
    model = _model().double()
    one = SOURCE[1:, :2], LENGTHS[1:], TARGET[1:, :1]
    weights, logits = model.enumerate(*one)
    wanted = (weights.unsqueeze(-1) * logits.softmax(-1)).sum(2).log()  # the first position is free
    torch.testing.assert_close(model(*one), wanted, atol=1e-12, rtol=1e-12)


def test_of_half_precision_probabilities_are_computed_in_single() -> None:
    output = _model().bfloat16()(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(output.exp().sum(-1), torch.ones(TARGET.shape), atol=1e-5, rtol=0)


def test_step_by_step_equals_at_once_also_for_selected_rows() -> None:
    model = _model(layers=2)
    together = model(SOURCE, LENGTHS, TARGET)
    rows = torch.tensor([1, 0, 1])
    state = model.select(model.start(SOURCE, LENGTHS), rows)
    before = torch.full([3], 1)
    for t in range(3):
        output, state = model.step(before, state)
        torch.testing.assert_close(output, together[rows, t], atol=1e-5, rtol=1e-5)
        before = TARGET[rows, t]


def test_recorded_positions_are_distributions_over_the_source() -> None:
    model = _model()
    with recording(model) as seen:
        model(SOURCE, LENGTHS, TARGET)
    weights = seen["decoder.attention"][:, 0]
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))
    assert not weights[1, :, 2:].any()


def test_searches_write_with_it() -> None:
    model = _model()
    assert greedy(model, SOURCE, LENGTHS, 5).shape[0] == 2
    tokens, scores = beam_search(model, SOURCE, LENGTHS, 5, 3)
    given = model(SOURCE, LENGTHS, tokens).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(given.masked_fill(tokens == PAD, 0.0).sum(-1), scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [{"wiring": "bahdanau"}, {"wiring": "luong", "input_feeding": True}])
def test_other_wirings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(LabError, match=r"pooling=monotonic.*model\.wiring=luong"):
        toy(Seq2Seq, Mechanism(ScaledDot, pooling=Monotonic), **options)
