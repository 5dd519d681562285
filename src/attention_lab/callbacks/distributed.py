"""Decisions shared by all processes of distributed training."""

import pytorch_lightning as pl
import torch


def any_process(trainer: pl.Trainer, decision: bool) -> bool:
    """Whether `decision` is true in any process. All must call it; unlike Lightning's, it adds no barrier."""
    if trainer.world_size == 1:
        return decision
    votes = torch.tensor(int(decision), device=trainer.strategy.root_device)
    torch.distributed.all_reduce(votes)
    return bool(votes)
