"""A training step of a model that writes sequences, in plain PyTorch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.tasks.transduction import cross_entropy


def plain_step(
    model: nn.Module,
    batch: Sequence[Any],
    optimizer: torch.optim.Optimizer,
    clip: float,
    device: torch.device,
) -> None:
    """Loss, backward, clipping and the optimiser's step."""
    moved = TransductionBatch(*(field.to(device) for field in batch[:6]))
    optimizer.zero_grad()
    logits: Tensor = model(moved.source, moved.source_lengths, moved.target)
    cross_entropy(logits, moved.target).backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
