"""What trainer=fsdp keeps on each device, and what it cannot train."""

import json
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from two_processes import run_in_two_processes

from attention_lab.attention import Mechanism, ScaledDot
from attention_lab.errors import LabError
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.experiment.trainer.sharding import FullyShardedStrategy
from attention_lab.models import Encoder


class Watched(pl.LightningModule):
    """An encoder and another layer, which note how many numbers of theirs are on this device."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoder = Encoder(Mechanism(ScaledDot), d_model=8, heads=2, layers=2, feedforward=8)
        self.other = nn.Linear(8, 1)
        self.folder = folder
        self.seen: dict[str, float] = {}

    def note(self, when: str) -> None:
        self.seen[when] = sum(_here(one).numel() for one in self.parameters())

    def on_fit_start(self) -> None:
        self.note("before training")

    def training_step(self, batch: Tensor) -> Tensor:
        inner = self.encoder.layers[1].feedforward
        self.seen["layer in a step"] = sum(_here(one).numel() for one in inner.parameters())
        self.seen["rest in a step"] = sum(one.numel() for one in self.other.parameters())
        return self.other(self.encoder(batch)).square().mean()  # type: ignore[no-any-return]

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.note("at the optimiser")
        gradients = [one.grad for one in self.parameters() if one.grad is not None]
        self.seen["gradients"] = sum(_here(one).numel() for one in gradients)

    def validation_step(self, batch: Tensor) -> None:
        self.note("in validation")

    def on_fit_end(self) -> None:
        self.note("after training")
        states = self.optimizers().state.values()  # type: ignore[union-attr]
        self.seen["optimiser"] = sum(_here(one["momentum_buffer"]).numel() for one in states)
        (self.folder / f"{self.global_rank}.json").write_text(json.dumps(self.seen))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)


def _here(tensor: Tensor) -> Tensor:
    """The part of a tensor that is on this device."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _train(folder: Path) -> None:
    loader = DataLoader([torch.randn(4, 5, 8)] * 2, batch_size=None)  # type: ignore[arg-type]
    pl.Trainer(
        max_epochs=2,
        strategy=FullyShardedStrategy(),
        inference_mode=False,
        devices=2,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    ).fit(Watched(folder), loader, loader)


@pytest.mark.slow
def test_each_device_keeps_half_during_training(tmp_path: Path) -> None:
    run_in_two_processes(_train, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    module = Watched(tmp_path)
    total = sum(one.numel() for one in module.parameters())
    for name in ("before training", "in validation", "after training"):
        assert first[name] == second[name] == total
    for name in ("at the optimiser", "gradients", "optimiser"):
        assert first[name] + second[name] == total
        assert abs(first[name] - second[name]) < total / 10
    inner = sum(one.numel() for one in module.encoder.layers[1].feedforward.parameters())
    assert first["layer in a step"] + second["layer in a step"] == inner
    assert first["rest in a step"] == 9


@pytest.mark.parametrize(
    ("callbacks", "options", "line"),
    [
        (
            {"average": {"_target_": "attention_lab.callbacks.AveragedWeights"}},
            {},
            "callbacks=ema averages all weights on every device, but trainer=fsdp divides them among the "
            "devices: choose trainer=ddp, or leave it out",
        ),
        (
            {"swa": {"_target_": "pytorch_lightning.callbacks.StochasticWeightAveraging", "swa_lrs": 0.01}},
            {},
            "StochasticWeightAveraging averages all weights on every device, but trainer=fsdp divides them "
            "among the devices: choose trainer=ddp, or leave it out",
        ),
        (
            {},
            {"strategy": "fsdp_cpu_offload"},
            "trainer.strategy=fsdp_cpu_offload never has the whole model on one device, which heatmaps need: "
            "choose trainer=fsdp",
        ),
        (
            {},
            {"precision": "16-mixed"},
            "trainer.precision=16-mixed does not work with trainer=fsdp: choose 32-true, bf16-mixed, "
            "bf16-true or 16-true",
        ),
    ],
)
def test_what_cannot_be_sharded_is_refused(
    callbacks: dict[str, Any], options: dict[str, Any], line: str
) -> None:
    node = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu", "strategy": "fsdp", "devices": 2}
    config = {"trainer": node | options, "logger": {}, "callbacks": callbacks, "optimizer": None}
    with pytest.raises(LabError) as refused:
        make_trainer(config)
    assert str(refused.value) == line
