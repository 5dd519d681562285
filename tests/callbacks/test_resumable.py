"""What is added to a checkpoint, so that training can resume in the middle of an epoch."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanSquaredError

from attention_lab.callbacks.randomness import random_states, restore_random_states
from attention_lab.callbacks.restoring import _callback_states
from attention_lab.callbacks.resumable import Resumable
from attention_lab.data.reading.bucketing import BucketBatches
from attention_lab.errors import LabError


class Sums(pl.LightningModule):
    """Logs for the epoch as a whole, in all ways."""

    def __init__(self, ends_before: int = 99) -> None:
        super().__init__()
        self.model = nn.Linear(1, 1)
        self.metric = MeanSquaredError()
        self.ends_before = ends_before

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        if batch_idx == self.ends_before:
            raise KeyError  # an end without notice
        (inputs,) = batch
        output = self.model(inputs)
        loss = (output + torch.rand(())).square().mean()
        self.metric(output, inputs)
        self.log("mean", loss, on_step=False, on_epoch=True, batch_size=1 + batch_idx)
        self.log("both", loss, on_step=True, on_epoch=True)
        for name, function in (("max", max), ("min", min), ("sum", sum)):
            self.log(name, loss, on_step=False, on_epoch=True, reduce_fx=function)
        self.log("metric", self.metric, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


def _fit(folder: Path, module: Sums, ckpt_path: str | None = None) -> dict[str, float]:
    pl.seed_everything(1, verbose=False)
    data = TensorDataset(torch.linspace(0, 1, 12).unsqueeze(1))
    sampler = BucketBatches(torch.ones(12, dtype=torch.int64), 2, shuffle=True)
    resumable = Resumable(str(folder), every_seconds=0)
    resumable.resuming = ckpt_path is not None
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[resumable],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    loader: DataLoader[Any] = DataLoader(data, sampler=sampler, batch_size=None)
    trainer.fit(module, loader, ckpt_path=ckpt_path, weights_only=True)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.mark.filterwarnings("ignore:.*ended before the epoch ended", "ignore:.*no `val_dataloader`")
@pytest.mark.parametrize("batch", [1, 5])
def test_what_an_epoch_sums_up_counts_the_batches_before_the_end(batch: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole, broken = Sums(), Sums(batch)
    broken.load_state_dict(whole.state_dict())
    expected = _fit(tmp_path / "whole", whole)
    with pytest.raises(KeyError):
        _fit(tmp_path / "broken", broken)
    broken.ends_before = 99
    found = _fit(tmp_path / "broken", broken, str(tmp_path / "broken" / "last.ckpt"))
    assert set(expected) == {"mean", "both", "both_step", "both_epoch", "max", "min", "sum", "metric"}
    assert found == expected
    assert torch.equal(whole.model.weight, broken.model.weight)


@pytest.mark.filterwarnings("ignore:.*ended before the epoch ended", "ignore:.*no `val_dataloader`")
def test_a_position_after_the_end_of_the_epoch_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        _fit(tmp_path, Sums(ends_before=3))
    last = tmp_path / "last.ckpt"
    content = torch.load(last, weights_only=True)
    content["attention_lab_state"]["batch"] = 2**52
    torch.save(content, last)
    with pytest.raises(ValueError, match=f"it continues after {2**52} batches, but an epoch has 6"):
        _fit(tmp_path, Sums(), str(last))


def test_all_generators_go_on_where_they_were(tmp_path: Path) -> None:
    def draw() -> tuple[float, float, float, float]:
        return random.random(), random.gauss(0, 1), np.random.rand(), float(torch.rand(()))  # noqa: NPY002

    draw()
    torch.save(random_states(), tmp_path / "states")
    expected = draw()
    draw()
    restore_random_states(torch.load(tmp_path / "states", weights_only=True))
    assert draw() == expected


def test_a_callback_of_ones_own_gets_its_state_back_unless_it_names_a_file() -> None:
    class Own(pl.Callback):
        pass

    trainer: Any = SimpleNamespace(callbacks=[Own()])
    for state, kept in (({"n": 1}, True), ({"file": "/etc/passwd"}, False)):
        states = {Own().state_key: state}
        assert _callback_states(trainer, states) == (states if kept else {})


def test_the_interval_is_checked() -> None:
    with pytest.raises(LabError, match="every_seconds=-1: choose 0"):
        Resumable("", every_seconds=-1)
