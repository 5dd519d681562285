"""Read checkpoints safely and rebuild trained models from them."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from hydra.errors import InstantiationException
from torch import Tensor

from attention_lab.commandline.option_paths import flatten
from attention_lab.config_parts import MECHANISM, completed
from attention_lab.console_text import printable, with_short_words
from attention_lab.data.reading.codecs import Codec
from attention_lab.errors import BAD_VALUE_ERRORS, LabError, first_line
from attention_lab.experiment.build import Config, checkpoint_config, make_task, rebuild
from attention_lab.experiment.ensembles import combined
from attention_lab.files.run_files import RECIPE
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.machine import check_fits_in_memory, usable_memory
from attention_lab.runs.checkpoint_paths import Paths, find_checkpoints
from attention_lab.sizes import Sizes
from attention_lab.tasks import Task
from attention_lab.tasks.model_checks import first_not_finite
from attention_lab.untrusted.checkpoints import read_checkpoint
from attention_lab.untrusted.model_size import MOST_TENSORS, TooLargeError, limit_size, size_limits
from attention_lab.untrusted.training_state import is_number


def load(
    path: Paths, adapt: Callable[[Config], Config] | None = None, allow: Sequence[str] = ()
) -> TrainedModel[Task]:
    """Rebuild a model, its vocabulary and its preprocessing from a checkpoint alone.

    Several checkpoints of sequence-to-sequence models with the same symbols become one `Ensemble`. Its
    options, such as the number of beams, are those of the first one's task. If only some of the models write
    from right to left, it is a `TwoWayEnsemble`, with the options of the first one that does not. Several
    classifiers with the same labels and symbols become a `ClassifierEnsemble`. A warning names weights that
    are NaN or infinite, as diverged training leaves them.

    For example:

        model = attention_lab.load("logs/.../checkpoints/best.ckpt")
        model.predict(["attention"])  # ["AH T EH N SH AH N"]

    Args:
        path: the checkpoint, its run's folder, a list of them, or a pattern; see `find_checkpoints`.
        adapt: a function that changes the checkpoint's configuration of model, task and data.
        allow: packages besides this one whose classes the checkpoint may name, such as `["my_package"]`.
            They are imported, and their classes called with the checkpoint's options.

    Raises:
        LabError: a checkpoint cannot be found, read or rebuilt, or several cannot be combined or do not fit
            in memory.
    """
    trained = load_checkpoints(path, adapt, allow)
    if warning := not_finite_warning(trained):
        warnings.warn(warning, stacklevel=2)
    return trained


def load_checkpoints(
    path: Paths, adapt: Callable[[Config], Config] | None, allow: Sequence[str]
) -> TrainedModel[Task]:
    """`load` without its warning."""
    paths = find_checkpoints(path)
    tasks: list[Task] = []
    taken = 0
    for one in paths:  # each checkpoint, which also has the optimiser's state, is in memory only by itself
        if tasks:
            needed = taken + one.stat().st_size
            check_fits_in_memory(needed, f"ckpt_path={one}: loading it, too,", "give fewer checkpoints")
        checkpoint = read_checkpoint(one)
        tasks.append(_rebuilt(one, checkpoint, adapt, allow))
        score = saved_score(checkpoint, one)
        taken += sum(weights.nbytes for weights in tasks[-1].parameters())
        del checkpoint
    if len(tasks) > 1:
        return TrainedModel(combined(paths, tasks), paths)
    return TrainedModel(tasks[0], paths, score)


def _rebuilt(
    path: Path,
    checkpoint: dict[str, Any],
    adapt: Callable[[Config], Config] | None,
    allow: Sequence[str],
) -> Task:
    try:
        kept = checkpoint_config(checkpoint[RECIPE], allow)
    except LabError as error:
        raise LabError(f"ckpt_path={path}: {with_short_words(str(error))}") from None
    weights = _weights(checkpoint["state_dict"], path)
    config = kept if adapt is None else adapt(kept)
    try:
        _check_size(checkpoint[RECIPE], config, weights.values())
        with limit_size(*size_limits(weights.values())):
            task = rebuild(checkpoint[RECIPE], config)
        task.load_state_dict(weights)
    except LabError as error:
        raise LabError(f"ckpt_path={path}: {with_short_words(str(error))}") from None
    except BAD_VALUE_ERRORS as error:
        raise LabError(f"ckpt_path={path}: the weights do not fit the model: {_misfit(error)}") from None
    return task


def _misfit(error: Exception) -> str:
    """Which weights do not fit; the first line of PyTorch's message names only the class of the task."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = lines[1:] if lines and lines[0].startswith("Error(s) in loading state_dict") else []
    return with_short_words(named[0])[:300] if named else first_line(error)


def _weights(state: object, path: Path | None) -> dict[str, Tensor]:
    """The parameters by name. Raises LabError if the state in this file is anything but named tensors."""
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise LabError(f"ckpt_path={path}: its weights are not named tensors")
    return state


def _check_size(recipe: Config, config: Config, weights: Collection[Tensor]) -> None:
    """Reject a model far larger than its weights, by building it on a device without memory first."""
    try:
        with limit_size(*size_limits(weights)), torch.device("meta"):
            rebuild(recipe, config)
    except TooLargeError:
        raise
    except LabError:
        return  # either the recipe is wrong, which `rebuild` reports next, or the model needs real memory


def check_model_size(
    config: Config, sizes: Sizes, codec: Codec, path: Path | None, checkpoint: Config | None
) -> None:
    """Reject a resumed run's model if it is far larger than its checkpoint or than the machine's memory.

    Raises:
        LabError: it is too large, or the checkpoint in `path` has no weights.
    """
    memory = usable_memory()
    weights = None if checkpoint is None else _weights(checkpoint["state_dict"], path)
    # Each parameter takes four bytes, its gradient another four, and the optimiser's state eight.
    room = (memory // 16, MOST_TENSORS) if weights is None else size_limits(weights.values())
    try:
        with torch.random.fork_rng(devices=[]), limit_size(*room), torch.device("meta"):
            make_task(config, sizes, codec, trainable=False)
    except TooLargeError:
        reason = "the weights do not fit the model" if weights else f"it needs more than {memory >> 30} GiB"
        raise LabError(f"resume: the model of this run is too large: {reason}") from None
    except (*BAD_VALUE_ERRORS, LabError, InstantiationException):
        return  # as in `_check_size`


def not_finite_warning(trained: TrainedModel[Task]) -> str:
    """A warning if weights are NaN or infinite; empty if all are finite, as in every ensemble."""
    name = first_not_finite(trained.model)
    return f"ckpt_path={trained.files[0]}: {name} has weights that are NaN or infinite" if name else ""


def check_same_model(path: Path | None, kept: Config, new: Config) -> None:
    """Raise LabError if the checkpoint has another model or other symbols."""
    try:
        parts = {
            part: (completed(kept["config"][part]), completed(new["config"][part]))
            for part in ("model", *MECHANISM)
        }
        parts |= {"data": ((kept["codec"], kept["sizes"]), (new["codec"], new["sizes"]))}
        same = {part: bool(before == now) for part, (before, now) in parts.items()}
    except BAD_VALUE_ERRORS:
        raise LabError(f"ckpt_path={path}: the checkpoint's recipe is incomplete") from None
    for part in parts:
        if not same[part]:
            raise LabError(
                f"ckpt_path={path}: the checkpoint differs in its {part}"
                f"{_first_difference(part, *parts[part])}; to continue from it, give the options it was "
                "trained with"
            )


def _first_difference(part: str, before: object, now: object) -> str:
    """The first option of a part that differs, as in `: it has model.layers=2, not 1`; else empty."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return ""
    old, new = (dict(flatten(one, f"{part}.")) for one in (before, now))
    for option in dict.fromkeys([*old, *new]):
        if old.get(option) != new.get(option):
            value, other = (printable(str(one.get(option)), 100) for one in (old, new))
            return f": it has {printable(option, 100)}={value}, not {other}"
    return ""


def saved_score(checkpoint: Mapping[str, Any], path: Path) -> str:
    """The monitored metric and its value if a checkpoint is the best of its run; otherwise empty."""
    states = checkpoint.get("callbacks")
    for state in states.values() if isinstance(states, Mapping) else ():
        if not isinstance(state, Mapping) or Path(str(state.get("best_model_path"))).name != path.name:
            continue
        score = state.get("best_model_score")
        value = score.item() if isinstance(score, Tensor) and score.numel() == 1 else score
        if is_number(value) and isinstance(state.get("monitor"), str):
            return f"{state['monitor']} {value:.4g}"
    return ""
