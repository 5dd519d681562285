"""The attention of a model whose parameters are spread over several processes."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.strategies import ModelParallelStrategy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
from two_processes import run_in_two_processes

from attention_lab.callbacks import AttentionMaps


class Sharded(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1)

    def configure_model(self) -> None:
        fully_shard(self.encoder, mesh=self.device_mesh["data_parallel"])  # type: ignore[index]

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)  # type: ignore[no-any-return]

    def training_step(self, batch: Any) -> Tensor:
        return self(batch).square().mean()  # type: ignore[no-any-return]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def _train(folder: Path) -> None:
    x = torch.randn(4, 5, 8)
    pl.Trainer(
        max_epochs=1,
        log_every_n_steps=1,
        strategy=ModelParallelStrategy(2, 1, process_group_backend="gloo"),
        devices=2,
        accelerator="cpu",
        logger=TensorBoardLogger(folder),
        callbacks=[AttentionMaps(x)],
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    ).fit(Sharded(), DataLoader([x] * 2, batch_size=None))  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_process_runs_the_batch(tmp_path: Path) -> None:
    """One alone would wait for the others' parameters forever."""
    run_in_two_processes(_train, tmp_path)
    (events,) = tmp_path.rglob("events*")
    found = EventAccumulator(str(events), {"images": 0}).Reload()
    assert len(found.Images("weights/example 1/encoder layer 1 self_attn")) == 2
