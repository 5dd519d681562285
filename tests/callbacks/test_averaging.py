"""The moving average of the weights, against its recursion in Python's floats."""

from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from attention_lab.callbacks import AveragedWeights
from attention_lab.errors import LabError


def _averages(decay: float, values: list[float]) -> list[float]:
    """The weight of an averaged model after each of these values of the weight."""
    module, callback = Falling().double(), AveragedWeights(decay)
    module.register_buffer("count", torch.tensor(0))
    callback.setup(SimpleNamespace(), module, "fit")  # type: ignore[arg-type]
    averaged: Any = callback._average_model
    result = []
    for number, value in enumerate(values):
        with torch.no_grad():
            module.weight.fill_(value)
        module.count.fill_(number)
        callback.on_train_batch_end(SimpleNamespace(global_step=number + 1), module)  # type: ignore[arg-type]
        result.append(averaged.module.weight.item())
        assert averaged.module.count == number
    return result


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.998])
def test_it_is_the_recursion(decay: float) -> None:
    values = torch.randn(60, generator=torch.Generator().manual_seed(0)).tolist()
    expected = values[:1]
    for n, value in enumerate(values[1:], start=1):
        kept = min(decay, (1 + n) / (10 + n))
        expected.append(kept * expected[-1] + (1 - kept) * value)
    assert _averages(decay, values) == pytest.approx(expected, rel=1e-5, abs=1e-6)


class Falling(pl.LightningModule):
    """Its weight is 0, -1, -2, ... after 0, 1, 2, ... steps."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def training_step(self, _: Tensor) -> Tensor:
        return self.weight.clone()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1.0)


def test_a_training_ends_with_the_average() -> None:
    module = Falling()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[AveragedWeights(0.3)],
    )
    trainer.fit(module, DataLoader(torch.arange(6)))  # type: ignore[arg-type]
    assert module.weight.item() == pytest.approx(_averages(0.3, [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])[-1])


class _AsksForValues(TorchDispatchMode):
    """Counts what a GPU would have to be waited for."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += "_local_scalar_dense" in str(function)
        return function(*args, **kwargs or {})


def test_only_the_first_update_asks_for_a_value() -> None:
    callback, module = AveragedWeights(0.3), Falling()
    callback.setup(SimpleNamespace(), module, "fit")  # type: ignore[arg-type]
    counts = []
    for step in (1, 2, 3):
        with _AsksForValues() as asked:
            callback.on_train_batch_end(SimpleNamespace(global_step=step), module)  # type: ignore[arg-type]
        counts.append(asked.count)
    assert counts == [1, 0, 0]


def test_the_start_of_a_short_training_is_forgotten() -> None:
    assert abs(_averages(0.998, [1000.0] + [1.0] * 100)[-1] - 1) < 1e-3


def test_a_decay_out_of_range_is_refused() -> None:
    with pytest.raises(LabError, match=r"callbacks\.ema\.decay must be in \[0, 1\), got 1"):
        AveragedWeights(1.0)
