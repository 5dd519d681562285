"""Which epoch's checkpoint is kept as the best."""

from pathlib import Path
from typing import Any, Literal

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader

from attention_lab.callbacks import BestCheckpoint


class Scripted(pl.LightningModule):
    """Reports the given values, one for each epoch."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.values = values
        self.weight = nn.Parameter(torch.zeros(()))

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return self.weight * batch.sum()

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("metric", self.values[self.current_epoch])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def kept_epochs(callback: ModelCheckpoint, values: list[float], **options: Any) -> list[int]:
    """The epochs of the saved checkpoints, from the best on."""
    trainer = pl.Trainer(
        max_epochs=len(values),
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    loader = DataLoader(torch.ones(2), batch_size=2)
    trainer.fit(Scripted(values), loader, loader)
    best = callback.best_model_path
    others = sorted(set(callback.best_k_models) - {best})
    return [torch.load(path, weights_only=True)["epoch"] for path in (best, *others)]


@pytest.mark.parametrize(
    ("mode", "values", "epoch"),
    [
        ("max", [0.5, 1.0, 0.9, 1.0, 0.8], 3),
        ("min", [0.5, 0.0, 0.0, 0.0, 0.1], 3),
        ("max", [0.9, 0.5, 0.5, 0.5], 0),
        ("max", [float("nan"), 0.1, float("nan")], 1),
    ],
)
def test_of_equally_good_epochs_the_latest_is_kept(
    tmp_path: Path, mode: Literal["min", "max"], values: list[float], epoch: int
) -> None:
    callback = BestCheckpoint(tmp_path, "best", monitor="metric", mode=mode, enable_version_counter=False)
    assert kept_epochs(callback, values) == [epoch]
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt"]


def test_an_equal_epoch_replaces_the_oldest_of_several(tmp_path: Path) -> None:
    callback = BestCheckpoint(tmp_path, "{epoch}", monitor="metric", mode="max", save_top_k=2)
    assert sorted(kept_epochs(callback, [0.5, 0.5, 0.2, 0.5])) == [1, 3]
    assert len(list(tmp_path.iterdir())) == 2
