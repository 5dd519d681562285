"""Checkpoints: read safely, and made into a model that predicts."""

import pickle
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from attention_lab.data.codecs import Codec
from attention_lab.errors import LabError
from attention_lab.experiment.build import Config, rebuild
from attention_lab.tasks import RECIPE, Observation, Task


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint of this project, loaded with `weights_only=True`: no code can run.

    Raises:
        LabError: there is no such file, it is damaged, holds code, or is of another project.
    """
    path = Path(path)
    if not path.is_file():
        raise LabError(f"ckpt_path={path}: no such file; a run's checkpoints are in its folder checkpoints/")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch says of a strange file, we say in one line
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise LabError(
            f"ckpt_path={path}: not a checkpoint of attention-lab, or it holds code: not loaded"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        raise LabError(f"ckpt_path={path}: the file is damaged or cut short") from None
    if not isinstance(checkpoint, dict) or RECIPE not in checkpoint or "state_dict" not in checkpoint:
        raise LabError(f"ckpt_path={path}: not a checkpoint of attention-lab")
    return checkpoint


BATCH = 256
"""Inputs that are predicted at a time."""


class TrainedModel:
    """A trained model with its preprocessing, as `attention_lab.load` gives it.

    Attributes:
        model: the network, in evaluation mode.
        codec: text to tensors and back.
        task: the LightningModule around both.
    """

    def __init__(self, task: Task) -> None:
        self.task = task.eval()
        self.model = task.model
        self.codec: Codec = task.codec

    def predict(self, lines: Sequence[str]) -> list[str]:
        """The model's output for each input, as text."""
        batches = (self.codec.encode(lines[n : n + BATCH], n + 1) for n in range(0, len(lines), BATCH))
        return [output for batch in batches for output in self.task.answer(batch)]

    def observe(self, lines: Sequence[str]) -> list[Observation]:
        """The outputs with the weights of every attention that led to them."""
        return self.task.observe(self.codec.encode(lines))


def load(path: str | Path, adapt: Callable[[Config], Config] | None = None) -> TrainedModel:
    """Rebuild a model, its vocabulary and its preprocessing from a checkpoint alone.

    Example:
        model = attention_lab.load("logs/.../checkpoints/best.ckpt")
        model.predict(["attention"])  # ["AH T EH N SH AH N"]

    Args:
        path: the checkpoint.
        adapt: changes to the configuration of model, task and data that it keeps.

    Raises:
        LabError: see `read_checkpoint`.
    """
    checkpoint = read_checkpoint(path)
    task = rebuild(checkpoint[RECIPE], adapt)
    try:
        task.load_state_dict(checkpoint["state_dict"])
    except RuntimeError as error:
        raise LabError(
            f"ckpt_path={path}: the weights do not fit the model: {str(error).splitlines()[0]}"
        ) from None
    return TrainedModel(task)
