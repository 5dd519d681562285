"""Copying against the formula in float64, one symbol at a time, in each wiring and under each pooling."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch

from attention_lab.attention import Additive, Exact, Hard, Mechanism, Monotonic, ScaledDot, Soft, recording
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.models.parts.copying import Copying
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS, PAD, UNK

COPIES = (0, 0, 0, 0, 6, 0, 4, 5)
"""Of the source symbols 4 to 7, 5 cannot be generated; 6 and 7 are the target symbols 4 and 5."""
SOURCE, LENGTHS = torch.tensor([[4, 5, 6, 7, EOS], [6, EOS, PAD, PAD, PAD]]), torch.tensor([5, 2])
TARGET = torch.tensor([[5, 4, EOS], [4, EOS, PAD]])
SIZES = TransductionSizes(8, 7, copies=COPIES)
OPTIONS = {"embedding_size": 3, "hidden_size": 4, "dropout": 0.0, "copy": True}
WIRINGS = [
    {"wiring": wiring, "input_feeding": fed} for wiring in ("luong", "bahdanau") for fed in (False, True)
]


def _model(score: type = ScaledDot, pooling: Any = Soft, **options: Any) -> Seq2Seq:
    torch.manual_seed(0)
    model = Seq2Seq(Mechanism(score, pooling=pooling), SIZES, **(OPTIONS | options)).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model.eval()


def test_the_mixture_by_the_formula_with_its_gradients() -> None:
    torch.manual_seed(1)
    copying = Copying(4, 7, torch.tensor(COPIES)).double()
    readouts, logits = (torch.randn(5, size, dtype=torch.float64, requires_grad=True) for size in (4, 7))
    weights = torch.rand(5, 7, dtype=torch.float64)
    totals = torch.tensor([1e-3, 0.3, 0.5, 0.9, 0.999], dtype=torch.float64).unsqueeze(-1)
    pointers = (weights / weights.sum(-1, keepdim=True) * totals).requires_grad_()
    rows = []
    for r, logit, m in zip(readouts, logits, pointers, strict=True):
        g = torch.sigmoid(copying.gate.weight[0] @ r + copying.gate.bias[0])
        softmax = logit.exp() / logit.exp().sum()
        rows += [(1 - (1 - g) * sum(m)) * softmax[y] + (1 - g) * m[y] for y in range(7)]
    expected, found = torch.stack(rows).view(5, 7), copying(readouts, logits, pointers).exp()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(found.sum(-1), torch.ones(5, dtype=torch.float64))
    upstream, leaves = torch.randn_like(found), [readouts, logits, pointers, *copying.parameters()]
    got = torch.autograd.grad(found, leaves, upstream, retain_graph=True)
    want = torch.autograd.grad(expected, leaves, upstream)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_of_half_precision_the_mixture_is_computed_in_single() -> None:
    torch.manual_seed(1)
    copying = Copying(4, 7, torch.tensor(COPIES)).bfloat16()
    pointers = torch.rand(5, 7).div(7).bfloat16()
    found = copying(torch.randn(5, 4).bfloat16(), torch.randn(5, 7).bfloat16(), pointers)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(5), rtol=0, atol=1e-6)


def test_unknown_symbols_are_copied_as_unknown() -> None:
    model = _model().eval()
    values = model.encode(torch.tensor([[UNK, 4, EOS]]), torch.tensor([3])).values
    _, pointers = model.decoder.copying.split(values)
    assert pointers[0].nonzero().tolist() == [[0, UNK], [1, 6]]


def test_nothing_or_only_one_symbol_is_pointed_at() -> None:
    copying = Copying(4, 7, torch.tensor(COPIES)).double()
    readouts, logits = torch.randn(2, 4, dtype=torch.float64), torch.randn(2, 7, dtype=torch.float64)
    nothing = copying(readouts, logits, torch.zeros(2, 7))
    torch.testing.assert_close(nothing, logits.log_softmax(-1))
    torch.nn.init.constant_(copying.gate.bias, -1e4)
    only = copying(readouts, logits, torch.eye(7, dtype=torch.float64)[4].expand(2, 7))
    assert only.isfinite().all()
    torch.testing.assert_close(only[:, 4].exp(), torch.ones(2, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(only[:, 4].sum(), copying.gate.bias)
    assert gradient.isfinite()


def test_weights_that_sum_to_more_than_one_still_give_a_distribution() -> None:
    copying = Copying(4, 7, torch.tensor(COPIES))
    output = copying(torch.randn(3, 4), torch.randn(3, 7), torch.rand(3, 7) * 5)
    torch.testing.assert_close(output.exp().sum(-1), torch.ones(3))


@pytest.mark.parametrize("options", WIRINGS, ids=lambda x: "-".join(map(str, x.values())))
@pytest.mark.parametrize("score", [ScaledDot, Additive])
@torch.no_grad()
def test_attention_points_at_the_symbols_that_can_be_generated(score: type, options: dict[str, Any]) -> None:
    model = _model(score, **options)
    bias = model.decoder.copying.gate.bias  # type: ignore[union-attr]
    bias.fill_(1e3)
    generated = model(SOURCE, LENGTHS, TARGET).exp()
    bias.fill_(-1e3)
    with recording(model) as weights:
        output = model(SOURCE, LENGTHS, TARGET).exp()
    attended = weights["decoder.attention"][:, 0]
    for row, t, symbol in itertools.product(range(2), range(3), range(7)):
        sources = [COPIES[x] for x in SOURCE[row].tolist()]
        pointers = [float(attended[row, t, s]) if sources[s] else 0.0 for s in range(5)]
        pointed = sum(pointer for s, pointer in enumerate(pointers) if sources[s] == symbol)
        expected = pointed + (1 - sum(pointers)) * float(generated[row, t, symbol])
        assert float(output[row, t, symbol]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("pooling", "options"),
    [*itertools.product([Soft, Hard, Exact], WIRINGS), (Monotonic, WIRINGS[0])],
    ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else x.__name__,
)
def test_step_by_step_equals_at_once_and_padding_changes_nothing(
    pooling: Any, options: dict[str, Any]
) -> None:
    model = _model(pooling=pooling, **options)
    together = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(together.exp().sum(-1), torch.ones_like(together[..., 0]))
    state, before = model.start(SOURCE, LENGTHS), torch.full([len(SOURCE)], 1)
    for t in range(TARGET.shape[1]):
        output, state = model.step(before, state)
        torch.testing.assert_close(output, together[:, t], rtol=0, atol=1e-10)
        before = TARGET[:, t]
    alone = model(SOURCE[1:, :2], LENGTHS[1:], TARGET[1:, :2])
    torch.testing.assert_close(alone, together[1:, :2], rtol=0, atol=1e-10)


@pytest.mark.parametrize("objective", ["bound", "marginal"])
def test_an_enumerated_position_copies_its_own_symbol(objective: str) -> None:
    model = _model(pooling=partial(Exact, objective=objective))
    probability, outputs = model.enumerate(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(outputs.exp().sum(-1), torch.ones_like(probability))
    soft = _model(pooling=Soft)
    with_gate = soft.enumerate(SOURCE, LENGTHS, TARGET)[1]
    torch.testing.assert_close(outputs, with_gate)
    torch.nn.init.constant_(model.decoder.copying.gate.bias, -1e3)  # type: ignore[union-attr]
    outputs = model.enumerate(SOURCE, LENGTHS, TARGET)[1].exp()
    for row, s in ((0, 0), (0, 2), (1, 0)):  # symbols 4, 6 and 6
        symbol = COPIES[int(SOURCE[row, s])]
        torch.testing.assert_close(outputs[row, :, s, symbol], torch.ones(3, dtype=torch.float64))


def test_every_parameter_learns_and_the_sources_symbols_are_not_saved() -> None:
    model = _model().train()
    model(SOURCE, LENGTHS, TARGET).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    assert "decoder.copying.gate.weight" in model.state_dict()
    assert "decoder.copying.targets" not in model.state_dict()


def test_what_cannot_be_copied_or_read_is_rejected() -> None:
    mechanism = Mechanism(ScaledDot)
    with pytest.raises(LabError, match=r"model\.copy=true, but no source symbol"):
        Seq2Seq(mechanism, TransductionSizes(8, 7, copies=(0,) * 8), **OPTIONS)
    with pytest.raises(LabError, match=r"model\.memory=final has no source symbols to copy"):
        Seq2Seq(mechanism, SIZES, **OPTIONS, memory="final")
    with pytest.raises(LabError, match=r"model\.tag_input=true reads tags, but the sources have none"):
        Seq2Seq(mechanism, SIZES, **OPTIONS, tag_input=True)


def test_the_decoder_reads_the_tags_whatever_their_order() -> None:
    torch.manual_seed(0)
    sizes = TransductionSizes(8, 7, tags=2, copies=COPIES)  # 6 and 7 are tags
    model = Seq2Seq(Mechanism(ScaledDot), sizes, **OPTIONS, tag_input=True).double().eval()
    condition = model.encode(SOURCE, LENGTHS).condition
    table = model.encoder.tags.weight  # type: ignore[union-attr]
    torch.testing.assert_close(condition, torch.stack([table[1] + table[2], table[1]]), rtol=0, atol=1e-14)
    before = model.decoder.embedding.weight[TARGET.t()] + condition
    embedded = model.decoder._embed(TARGET, model.start(SOURCE, LENGTHS))
    torch.testing.assert_close(embedded, before, rtol=0, atol=1e-14)
    picked = model.select(model.start(SOURCE, LENGTHS), torch.tensor([1, 1, 0]))
    torch.testing.assert_close(picked.condition, condition[[1, 1, 0]])
    padded = torch.nn.functional.pad(SOURCE, (0, 2), value=7)  # whatever is beyond a length
    torch.testing.assert_close(model.encode(padded, LENGTHS).condition, condition, rtol=0, atol=1e-14)
