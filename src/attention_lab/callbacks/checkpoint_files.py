"""Checkpoints on the disk: each whole or not at all, and of the last one its predecessor too."""

import io
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.types import _PATH

from attention_lab.writing import write_atomically

LAST = "last.ckpt"
"""What a run that was interrupted goes on from."""
PREVIOUS = "previous.ckpt"
"""The one before it, for the case that the last one is damaged."""


class CheckpointFiles(TorchCheckpointIO):
    """Writes checkpoints atomically; a new `last.ckpt` leaves the one before it as `previous.ckpt`."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint. Raises LabError if that cannot be done; what was there before stays whole."""
        target = Path(path)
        content = io.BytesIO()
        torch.save(checkpoint, content)
        previous = target.with_name(PREVIOUS) if target.name == LAST else None
        write_atomically(target, content.getbuffer(), previous)
