"""The losses beside cross entropy: R-Drop, and CTC."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from toys import toy

from attention_lab.attention import Exact, Hard, Mechanism, ScaledDot, Soft
from attention_lab.data import Reverse
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.special_symbols import PAD
from attention_lab.tasks import Transduction
from attention_lab.tasks.losses.r_drop import divergence, duplicate
from attention_lab.tasks.transduction import cross_entropy


@pytest.fixture
def data() -> Reverse:
    data = Reverse(train_size=4, validation_size=1, test_size=1)
    data.setup()
    return data


def _task(
    data: Reverse,
    pooling: type[nn.Module] = Soft,
    dropout: float = 0.5,
    model: dict[str, int] | None = None,
    **options: Any,
) -> Transduction:
    mechanism, extra = Mechanism(ScaledDot, pooling=pooling), {"wiring": "luong", **(model or {})}
    made = toy(Seq2Seq, mechanism, data.codec.sizes, dropout=dropout, **extra)
    return Transduction(made, data.codec, **options).train()


def test_it_is_the_mean_of_both_divergences() -> None:
    """By the formula, symbol by symbol in Python's floats; what padding holds changes nothing."""
    torch.manual_seed(0)
    logits = torch.randn(4, 3, 5, dtype=torch.float64)
    target = torch.tensor([[4, 2, PAD], [4, 3, 2], [4, 2, PAD], [4, 3, 2]])
    p = logits.softmax(-1).tolist()
    total = 0.0
    for row, step in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]:
        first, second = p[row][step], p[row + 2][step]
        there = sum(a * math.log(a / b) for a, b in zip(first, second, strict=True))
        back = sum(b * math.log(b / a) for a, b in zip(first, second, strict=True))
        total += (there + back) / 2
    assert divergence(logits, target).item() == pytest.approx(total / 5, rel=1e-5)
    poisoned = logits.clone()
    poisoned[0, 2] = 1e9
    assert divergence(poisoned, target) == divergence(logits, target)


def test_it_pulls_the_two_passes_together() -> None:
    logits = torch.randn(2, 3, 5).requires_grad_()
    target = torch.full([2, 3], 4)
    before = divergence(logits, target)
    (gradient,) = torch.autograd.grad(before, logits)
    assert divergence(logits - 0.1 * gradient, target) < before
    assert divergence(logits[:1].repeat(2, 1, 1), target) == 0


def test_a_step_adds_it_to_the_cross_entropy_of_both_passes(
    data: Reverse, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = _task(data, r_drop=3.0, label_smoothing=0.1)
    logged = {}
    monkeypatch.setattr(task, "log", lambda name, value, **_: logged.update({name: value}))
    batch = data.splits.train[torch.arange(4)]
    torch.manual_seed(1)
    loss = task.training_step(batch, 0)
    torch.manual_seed(1)
    both = duplicate(batch)
    logits = task.model(both.source, both.source_lengths, both.target)
    assert logits.shape[0] == 8
    assert not logits[:4].equal(logits[4:])
    expected = cross_entropy(logits, both.target, 0.1)
    assert logged["train/loss"] == expected
    torch.testing.assert_close(loss, expected + 1.5 * divergence(logits, both.target))


def test_a_step_adds_what_the_encoder_writes(data: Reverse, monkeypatch: pytest.MonkeyPatch) -> None:
    task = _task(data, dropout=0.0, ctc=0.3, model={"ctc_frames": 2})
    monkeypatch.setattr(task, "log", lambda *_, **__: None)
    batch = data.splits.train[torch.arange(4)]
    model = task.model
    encoded = model.encode(batch.source, batch.source_lengths)
    written = model.tagger.loss(encoded.keys, encoded.mask, batch.target)
    read = cross_entropy(model(batch.source, batch.source_lengths, batch.target), batch.target)
    torch.testing.assert_close(task.training_step(batch, 0), read + 0.3 * written)


def test_a_model_of_ones_own_needs_no_tagger(data: Reverse, monkeypatch: pytest.MonkeyPatch) -> None:
    task = _task(data)
    del task.model.tagger
    monkeypatch.setattr(task, "log", lambda *_, **__: None)
    assert task.training_step(data.splits.train[torch.arange(4)], 0) > 0


def test_what_it_cannot_do_is_refused(data: Reverse) -> None:
    for pooling in (Hard, Exact):
        for option in ({"r_drop": 1.0}, {"ctc": 0.3, "model": {"ctc_frames": 3}}):
            with pytest.raises(LabError, match="pooling=soft"):
                _task(data, pooling, **option)
    with pytest.raises(LabError, match=r"no nn.Dropout above 0: raise it \(model\.dropout in"):
        _task(data, dropout=0.0, r_drop=1.0)
    with pytest.raises(LabError, match=r"task\.r_drop must be at least 0"):
        _task(data, r_drop=-1.0)
    for alone in ({"ctc": 0.3}, {"model": {"ctc_frames": 3}}):
        with pytest.raises(LabError, match=r"set both \(in seq2seq and transformer, task\.ctc=0\.3"):
            _task(data, **alone)
