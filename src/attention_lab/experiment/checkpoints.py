"""Checkpoints: found, read safely, and made into a model that predicts."""

import glob
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
from attention_lab.models import Ensemble
from attention_lab.tasks import RECIPE, Observation, Task, Transduction

Paths = str | Path | Sequence[str | Path]


def find_checkpoints(given: Paths) -> list[Path]:
    """The files that are meant: one, those of a list, or all that fit a pattern (`logs/*/best.ckpt`), sorted.

    Raises:
        LabError: no file fits a pattern, or the list is empty.
    """
    paths: list[Path] = []
    for one in [given] if isinstance(given, str | Path) else given:
        if Path(one).exists() or not glob.has_magic(str(one)):
            paths.append(Path(one))
            continue
        fitting = sorted(glob.glob(str(one), recursive=True))  # noqa: PTH207  # Path.glob takes none from /
        if not fitting:
            raise LabError(f"ckpt_path={one}: no file fits")
        paths += map(Path, fitting)
    if not paths:
        raise LabError("ckpt_path=[] names no checkpoint; give one or more")
    return list(dict.fromkeys(paths))


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


def load(path: Paths, adapt: Callable[[Config], Config] | None = None) -> TrainedModel:
    """Rebuild a model, its vocabulary and its preprocessing from a checkpoint alone.

    Several checkpoints of models that write sequences of the same symbols become one, an `Ensemble`. It has
    the options of the first one's task, such as its beams.

    Example:
        model = attention_lab.load("logs/.../checkpoints/best.ckpt")
        model.predict(["attention"])  # ["AH T EH N SH AH N"]

    Args:
        path: the checkpoint, a list of them, or a pattern; see `find_checkpoints`.
        adapt: changes to the configuration of model, task and data that it keeps.

    Raises:
        LabError: see `find_checkpoints` and `read_checkpoint`; or several cannot be one.
    """
    paths = find_checkpoints(path)
    tasks = [_load(one, adapt) for one in paths]
    return TrainedModel(tasks[0] if len(tasks) == 1 else _together(paths, tasks))


def _load(path: Path, adapt: Callable[[Config], Config] | None) -> Task:
    checkpoint = read_checkpoint(path)
    task = rebuild(checkpoint[RECIPE], adapt)
    try:
        task.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, TypeError, AttributeError) as error:
        raise LabError(
            f"ckpt_path={path}: the weights do not fit the model: {str(error).splitlines()[0]}"
        ) from None
    return task


def _together(paths: Sequence[Path], tasks: Sequence[Task]) -> Task:
    """The first task with the models of all."""
    first, members = tasks[0], []
    for path, task in zip(paths, tasks, strict=True):
        if not isinstance(task, Transduction):
            raise LabError(f"ckpt_path: {path} writes no sequence, and only models that do are put together")
        if task.codec.state() != first.codec.state():
            raise LabError(
                f"ckpt_path: {paths[0]} and {path} have different vocabularies: "
                "only models of the same symbols are put together"
            )
        assert not isinstance(task.model, Ensemble)
        members.append(task.model)
    first.model = Ensemble(members)
    return first
