"""Read a checkpoint of this project without running any code from it."""

from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.files.run_files import RECIPE
from attention_lab.untrusted.archives import NOT_OURS, load_archive
from attention_lab.untrusted.plain_files import check_checkpoint_exists


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Load a checkpoint of this project with `weights_only=True`, so that no code can run.

    The content consists of plain values and complete tensors, and takes no more memory than the file's size.

    Raises:
        LabError: the file is missing, damaged, contains code, or is from another project.
    """
    path = Path(path)
    check_checkpoint_exists(path)
    checkpoint = load_archive(path, f"ckpt_path={path}")
    if not isinstance(checkpoint, dict) or RECIPE not in checkpoint or "state_dict" not in checkpoint:
        raise LabError(f"ckpt_path={path}: {NOT_OURS}")
    return checkpoint
