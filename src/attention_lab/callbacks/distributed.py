"""Decisions that all processes of a training take together."""

import pytorch_lightning as pl
import torch


def any_process(trainer: pl.Trainer, decision: bool) -> bool:
    """Whether any process decides so; all have to ask. Lightning's own waits at a barrier besides."""
    if trainer.world_size == 1:
        return decision
    votes = torch.tensor(int(decision), device=trainer.strategy.root_device)
    torch.distributed.all_reduce(votes)
    return bool(votes)
