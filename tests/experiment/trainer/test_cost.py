"""The reported cost of a fit."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.experiment.trainer import cost
from attention_lab.experiment.trainer.cost import MEBIBYTE

CPU = torch.device("cpu")


def _peak_of(numbers: int, before: float) -> float:
    torch.ones(numbers)  # is given back at once
    peak = cost._resident("VmHWM")
    assert peak is not None
    return (peak - before) / MEBIBYTE


def test_the_peak_is_measured_since_the_last_reset() -> None:
    before = cost._other_memory(CPU, 0.0)
    if before is None:
        pytest.skip("this system does not let a process forget its peak")
    assert 60 < _peak_of(16 * MEBIBYTE, before) < 100
    before = cost._other_memory(CPU, 0.0)
    assert before is not None
    assert _peak_of(MEBIBYTE, before) < 30
    held = cost._other_memory(CPU, 10.0 * MEBIBYTE)
    assert held is not None
    assert held == pytest.approx(before - 10 * MEBIBYTE, abs=5 * MEBIBYTE)


def test_without_the_systems_figures_memory_is_unknown(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(cost, "_PROCESS", tmp_path / "none")
    assert cost._resident() is None
    assert cost._other_memory(CPU, 0.0) is None
    one = cost.Cost()
    assert one.metrics(CPU) == {}
    one.steps, one.seconds = 10, 4.0
    assert one.metrics(CPU) == {"fit/steps_per_second": 2.5}


def test_weights_gradients_and_state_are_held() -> None:
    module = nn.Linear(100, 100, bias=False)

    class Fit:
        optimizers = (torch.optim.Adam(module.parameters()),)

    assert cost._training_memory(Fit, module) == 40_000
    module(torch.ones(1, 100)).sum().backward()
    Fit.optimizers[0].step()
    assert cost._training_memory(Fit, module) == pytest.approx(4 * 40_000, abs=8)


def _trainer(short_epochs: int = 0) -> Any:
    return SimpleNamespace(
        datamodule=SimpleNamespace(short_epochs=short_epochs),
        is_last_batch=False,
        optimizers=(),
        current_epoch=0,
        global_step=0,
    )


def test_first_epochs_of_shorter_sequences_cost_nothing() -> None:
    trainer = _trainer(short_epochs=2)
    one, module = cost.Cost(), SimpleNamespace(device=CPU, parameters=list)
    for epoch in range(4):
        trainer.current_epoch = epoch
        one.on_train_epoch_start(trainer, module)
        for _ in range(3):
            trainer.global_step += 1
            one.on_train_batch_end(trainer, module)
        assert one.steps == [0, 0, 2, 5][epoch]  # the first of those that count makes the buffers
    assert (one.seconds > 0) is True


def test_what_a_validation_loads_is_not_memory_of_training(monkeypatch) -> None:
    trainer = _trainer()
    one, module = cost.Cost(), SimpleNamespace(device=CPU, parameters=list)
    kept, collections = [], []
    monkeypatch.setattr(cost.gc, "collect", lambda: collections.append(None))
    for epoch in range(3):
        one.on_train_epoch_start(trainer, module)
        for index in range(2):
            trainer.global_step += 1
            one.on_train_batch_start(trainer, module, None, index)
            torch.ones(5 * MEBIBYTE)  # 20 MiB that a step needs
            one.on_train_batch_end(trainer, module)
        one.on_validation_start(trainer, module)
        if epoch == 0:
            kept.append(torch.ones(32 * MEBIBYTE))  # 128 MiB that stay in use, as those of a library
        one.on_validation_end(trainer, module)
    assert len(collections) == 1, "it takes 0.3 s, much longer than an epoch of kernel regression"
    if one.other_memory is None and one.peak is None:
        pytest.skip("this system does not let a process forget its peak")
    assert 10 < one.metrics(CPU)["fit/peak_memory_mb"] < 100  # the allocator may keep a step's 20 MiB
    assert one.state_dict()["peak"] == one.peak
