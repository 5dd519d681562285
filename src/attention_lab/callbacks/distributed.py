"""Decisions shared by all processes of a training."""

import pytorch_lightning as pl
import torch


def any_process(trainer: pl.Trainer, decision: bool) -> bool:
    """Whether any process decides so; all must call it. Unlike Lightning's, it waits at no extra barrier."""
    if trainer.world_size == 1:
        return decision
    votes = torch.tensor(int(decision), device=trainer.strategy.root_device)
    torch.distributed.all_reduce(votes)
    return bool(votes)
