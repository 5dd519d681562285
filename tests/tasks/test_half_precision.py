"""Losses and errors of models in half precision are computed in single precision."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_data import whole
from toys import toy

from attention_lab.attention import Exact, Gaussian, Hard, Mechanism, Monotonic, ScaledDot
from attention_lab.data import Copy
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs import LanguageCodec, RegressionCodec
from attention_lab.data.reading.datasets import LanguageSplit
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.models import KernelRegression, LanguageModel, Seq2Seq
from attention_lab.sizes import RegressionSizes
from attention_lab.special_symbols import BOS, EOS
from attention_lab.tasks import LanguageModeling, Regression, Transduction
from attention_lab.tasks.classification import label_cross_entropy
from attention_lab.tasks.transduction import cross_entropy

HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_neither_rounds_nor_overflows(dtype: torch.dtype, smoothing: float) -> None:
    """The sum over 20,000 symbols is more than the largest float16."""
    torch.manual_seed(0)
    logits, target = (2 * torch.randn(2, 10_000, 50)).to(dtype), torch.randint(1, 50, (2, 10_000))
    exact = F.cross_entropy(logits.double().flatten(0, 1), target.flatten(), label_smoothing=smoothing)
    for loss in (cross_entropy, label_cross_entropy):
        assert float(loss(logits, target, smoothing)) == pytest.approx(float(exact), rel=1e-5)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_squared_errors_neither_round_nor_overflow(dtype: torch.dtype) -> None:
    """With a deviation of 1000, their squares are more than the largest float16."""
    torch.manual_seed(0)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(1, 1, 20))
    inputs, targets = torch.randn(20, 1), torch.randn(20, 1)
    model.memorize(inputs, targets)
    task = Regression(model, RegressionCodec(["x"], "y", [0.0, 0.0], [1.0, 1000.0])).to(dtype).eval()
    logged: dict[str, Any] = {}
    task.log = lambda name, value, **_: logged.update({name: value})  # type: ignore[method-assign]
    batch = RegressionBatch(inputs.to(dtype), targets.to(dtype), torch.arange(20))
    task.on_test_start()
    task.test_step(batch, 0)
    task.on_test_epoch_end()
    with torch.no_grad():
        errors = task.model(batch.inputs, batch.index).double() - batch.targets.double()
    expected = pytest.approx(1e6 * float(errors.square().mean()), rel=1e-4)
    assert float(logged["test/mse"].compute()) == expected
    assert float(logged["train/loo_mse"]) == expected
    for reduction in ("mean", "sum"):
        task.reduction = reduction
        loss = task.training_step(batch, 0)
        total = errors.square().mean() if reduction == "mean" else errors.square().sum()
        assert loss is not None
        assert float(loss.detach()) == pytest.approx(float(total), rel=1e-4)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@torch.no_grad()
def test_the_loss_of_an_epoch_is_not_summed_in_half_precision(dtype: torch.dtype) -> None:
    """A model is converted with its metrics; bfloat16 stops counting at 256 equal batches."""
    codec = LanguageCodec(Tokenizer.of(Notation("characters"), ["abc"]), length=12, ends=True)
    task = LanguageModeling(toy(LanguageModel, sizes=codec.sizes), codec).to(dtype).eval()
    task.log = lambda *_, **__: None  # type: ignore[method-assign]
    batches = [LanguageSplit([[BOS, 4, 5, EOS]] * 8)[torch.arange(8)]] * 300
    batches += [LanguageSplit([[BOS, 6, 6, 6, 6, EOS]] * 8)[torch.arange(8)]] * 300
    task.on_validation_start()
    losses = []
    for batch in batches:
        task.validation_step(batch, 0)
        losses += [float(cross_entropy(task.model(batch.tokens[:, :-1]), batch.tokens[:, 1:]))]
    first, last = losses[0], losses[-1]
    expected = (3 * first + 5 * last) / 8
    assert abs(first - last) > 0.05
    assert float(task.measures["validation_loss"].compute()) == pytest.approx(expected, rel=1e-4)  # type: ignore[operator]


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("pooling", [Hard, Exact, Monotonic])
def test_latent_positions_are_learned_in_half_precision(dtype: torch.dtype, pooling: type) -> None:
    data = Copy(train_size=8, validation_size=1, test_size=1)
    data.setup()
    mechanism = Mechanism(ScaledDot, pooling=pooling)
    model = toy(Seq2Seq, mechanism, data.codec.sizes, wiring="luong", input_feeding=False, dropout=0.0)
    task = Transduction(model, data.codec).to(dtype).train()
    task.log = lambda *_, **__: None  # type: ignore[method-assign]
    loss = task.training_step(whole(data.splits.train), 0)
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64], ids=str)
def test_counts_stay_whole_numbers(dtype: torch.dtype) -> None:
    data = Copy(train_size=1, validation_size=1, test_size=1)
    data.setup()
    task = Transduction(toy(Seq2Seq, sizes=data.codec.sizes), data.codec).to(dtype)
    task.on_test_start()
    assert {one.numerator.dtype for one in task.errors.values()} == {torch.int64}  # type: ignore[union-attr]
