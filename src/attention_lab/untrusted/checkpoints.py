"""A checkpoint file of this project, read without running anything that it holds."""

from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.tasks import RECIPE
from attention_lab.untrusted.archives import NOT_OURS, load_archive


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint of this project, loaded with `weights_only=True`: no code can run.

    It is of plain values and whole tensors, and takes no more memory than the file has bytes.

    Raises:
        LabError: there is no such file, it is damaged, holds code, or is of another project.
    """
    path = Path(path)
    if not path.is_file():
        raise LabError(f"ckpt_path={path}: no such file; a run's checkpoints are in its folder checkpoints/")
    checkpoint = load_archive(path, f"ckpt_path={path}")
    if not isinstance(checkpoint, dict) or RECIPE not in checkpoint or "state_dict" not in checkpoint:
        raise LabError(f"ckpt_path={path}: {NOT_OURS}")
    return checkpoint
