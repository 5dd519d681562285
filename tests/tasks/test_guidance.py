"""Guided attention: the loss by hand, the weights by the model's own recording, and what it teaches."""

from functools import partial
from typing import Any

import pytest
import torch
from toys import LENGTHS, SOURCE, TARGET, exact_toy, toy

from attention_lab.attention import Additive, Exact, Hard, Mechanism, Monotonic, ScaledDot, recording
from attention_lab.data import Reverse
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq, Transformer
from attention_lab.tasks import Transduction
from attention_lab.tasks.losses.guidance import guidance_loss


def test_the_loss_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.0, 1.0], [0.5, 0.5]]], requires_grad=True)
    alignment = torch.tensor([[0, 1], [0, -1]])
    loss = guidance_loss(weights, alignment)
    expected = -(torch.tensor([0.5, 0.75, 1e-6]).log().sum() / 3)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(gradient[0], torch.tensor([[-2 / 3, 0.0], [0.0, -4 / 9]]))
    assert not gradient[1].any()
    assert guidance_loss(weights, torch.full([2, 2], -1)) == 0


@pytest.mark.parametrize("score", [Additive, ScaledDot])
def test_logits_with_weights_equal_those_without(score: type) -> None:
    model = exact_toy(Seq2Seq, score, wiring="luong")
    with recording(model) as seen:
        expected = model(SOURCE, LENGTHS, TARGET)
    logits, weights = model.attend(model.encode(SOURCE, LENGTHS), TARGET)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(weights, seen["decoder.attention"][:, 0].to(weights), rtol=0, atol=1e-6)
    assert weights.requires_grad


def _task(data: Reverse, guidance: float) -> Transduction:
    torch.manual_seed(0)
    model = Seq2Seq(Mechanism(Additive), data.sizes, embedding_size=8, hidden_size=16, dropout=0.0)
    optimizer = partial(torch.optim.Adam, lr=0.02)
    return Transduction(model, data.codec, guidance=guidance, optimizer=optimizer)


def _trained(guidance: float) -> float:
    """The mean weight on the gold positions after some steps."""
    data = Reverse(train_size=64, validation_size=4, test_size=4)
    data.setup()
    task = _task(data, guidance)
    task.log = lambda *arguments, **options: None  # type: ignore[method-assign]
    optimizer = torch.optim.Adam(task.parameters(), lr=0.02)
    batch: Any = data.splits.train[torch.arange(64)]
    for step in range(50):
        optimizer.zero_grad()
        task.training_step(batch, step).backward()
        optimizer.step()
    with recording(task.model) as seen, torch.no_grad():
        task.model(batch.source, batch.source_lengths, batch.target)
    weights = seen["decoder.attention"][:, 0]
    aligned = batch.alignment >= 0
    chosen = weights.gather(-1, batch.alignment.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return float(chosen[aligned].mean())


@pytest.mark.long
def test_guidance_teaches_the_alignment() -> None:
    guided, free = _trained(1.0), _trained(0.0)
    assert guided > free + 0.3, (guided, free)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: toy(Transformer, ScaledDot), "choose model=seq2seq pooling=soft"),
        (lambda: toy(Seq2Seq, Mechanism(ScaledDot, pooling=Monotonic), wiring="luong"), "pooling=soft"),
        (lambda: toy(Seq2Seq, Mechanism(ScaledDot, pooling=Hard)), "hard pooling has one for each position"),
        (lambda: toy(Seq2Seq, Mechanism(ScaledDot, pooling=Exact)), "hard pooling has one for each position"),
        (lambda: toy(Seq2Seq, ScaledDot, wiring="bahdanau"), r"task\.guidance needs model\.wiring=luong"),
    ],
)
def test_what_cannot_be_guided_is_rejected(model: Any, message: str) -> None:
    data = Reverse(train_size=4, validation_size=4, test_size=4)
    data.setup()
    with pytest.raises(LabError, match=message):
        Transduction(model(), data.codec, guidance=0.5, optimizer=partial(torch.optim.Adam, lr=0.1))


def test_a_negative_weight_is_rejected() -> None:
    data = Reverse(train_size=4, validation_size=4, test_size=4)
    data.setup()
    with pytest.raises(LabError, match=r"task\.guidance must be at least 0, got -1"):
        _task(data, -1.0)
