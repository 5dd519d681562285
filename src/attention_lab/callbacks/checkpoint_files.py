"""Checkpoints on disk: written atomically, and the predecessor of the last one is kept."""

import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning_fabric.utilities.types import _PATH

from attention_lab.errors import LabError, first_line
from attention_lab.files.paths import is_inside
from attention_lab.files.regular_files import is_file
from attention_lab.files.run_files import LAST, PREVIOUS
from attention_lab.files.writing import remove, write_atomically
from attention_lab.untrusted.archives import check_values, load_archive

_NOT_PLAIN = (AttributeError, TypeError, pickle.PickleError, LabError)
"""The errors for values that PyTorch cannot save, or that `load_archive` would reject."""


class CheckpointFiles(TorchCheckpointIO):
    """Writes checkpoints atomically; when `last.ckpt` is replaced, the old one becomes `previous.ckpt`.

    Damaged checkpoints are rejected on loading. Only files that this object wrote, or that are in the run's
    folder, are ever removed.

    Args:
        folder: the run's folder.
        others: other folders in which checkpoints may be written.
    """

    def __init__(self, folder: str, *others: str) -> None:
        super().__init__()
        self.folder = folder
        self.others = others
        self.written: set[str] = set()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint.

        Raises:
            LabError: it cannot be written or read again, or is not in one of the folders; any existing file
                stays intact.
        """
        target = Path(path)
        if not any(is_inside(target, folder) for folder in (self.folder, *self.others)):
            raise LabError(
                f"the checkpoint {target} would not be in the run's folder {self.folder}: choose another "
                "callbacks.checkpoint.filename, or set callbacks.checkpoint.dirpath=..."
            )
        try:
            content = _archive(checkpoint)
        except _NOT_PLAIN as error:
            raise _saving_error(checkpoint) or error from None
        previous = target.with_name(PREVIOUS) if target.name == LAST else None
        write_atomically(target, content.getbuffer(), previous)
        self.written.add(os.path.realpath(target))

    def load_checkpoint(
        self,
        path: _PATH,
        map_location: Any = lambda storage, _: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a checkpoint. Raises LabError if it is damaged or holds more than plain values and tensors."""
        content: dict[str, Any] = load_archive(Path(path))
        return content

    def remove_checkpoint(self, path: _PATH) -> None:
        """Remove a checkpoint of this run. Anything else (a folder, a URL) is left alone."""
        real = os.path.realpath(path)
        if real in self.written or is_inside(path, self.folder):
            if is_file(path):
                remove(Path(path))
            self.written.discard(real)


def _archive(values: Any) -> io.BytesIO:
    """The archive of values, which `load_archive` can load."""
    content = io.BytesIO()
    torch.save(values, content)
    with zipfile.ZipFile(content) as archive:
        check_values(archive)
    return content


def _saving_error(checkpoint: Mapping[str, Any]) -> LabError | None:
    """The error of the first part of a checkpoint that cannot be saved; None if each of them can be."""
    states = {f"{name}.state_dict": one for name, one in checkpoint.get("callbacks", {}).items()}
    others = {f"the checkpoint's {name}": one for name, one in checkpoint.items() if name != "callbacks"}
    for name, value in (states | others).items():
        try:
            _archive(value)
        except _NOT_PLAIN as error:
            return LabError(f"{name} may contain only plain values and tensors: {first_line(error)}")
    return None
