"""Check the state in a checkpoint before training resumes from it.

Lightning restores whatever a checkpoint contains. For example, a `ModelCheckpoint` later deletes,
recursively, the "previous best" that its state names, and progress and schedules accept any attribute. So
each part must have the same keys, types and shapes as in the new training run, which has just been built.
Errors are `ValueError`s, which the caller turns into one line with the checkpoint's name.
"""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attention_lab.files.paths import is_inside
from attention_lab.files.regular_files import is_file

KEPT = (
    *("epoch", "global_step", "pytorch-lightning_version", "state_dict", "optimizer_states"),
    *("lr_schedulers", "loops", "current_model_state", "averaging_state", "MixedPrecision"),
)
"""Parts of another run's checkpoint that training starts from; none of them contains a path."""
LEGACY = ("native_amp_scaling_state", "amp_scaling_state", "hparams_name", "hparams_type")
"""Parts that Lightning reads from checkpoints of old versions; ours never have them."""
LARGEST_INTEGER = 2**53
"""Counts and other integers must be smaller in absolute value."""
PATHS = ("best_model_path", "kth_best_model_path", "last_model_path")
"""Paths in the state of a `ModelCheckpoint`, which deletes these files when better ones are saved."""
_WORDS = 624  # words in the state of a Mersenne Twister


def check_training_state(checkpoint: Mapping[str, Any]) -> None:
    """Check that a checkpoint has the state of a training run.

    Raises:
        ValueError: a part of it is missing or invalid.
    """
    if not isinstance(checkpoint.get("callbacks"), dict):
        raise ValueError("it has weights but no training state")
    version = str(checkpoint.get("pytorch-lightning_version"))[:40]
    if not re.fullmatch(r"[2-9]\.\d+(\.\w+)*", version):
        raise ValueError(f"it has the version {version}, but Lightning 2.0 or later is needed")
    if not all(is_count(checkpoint.get(key)) for key in ("epoch", "global_step")):
        raise ValueError("its epoch or step is not a count")


def initial_state(checkpoint: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The state that training takes from another run's checkpoint: weights, optimiser, schedule, counts.

    `more` has further parts to take, already checked.
    """
    return {key: checkpoint[key] for key in KEPT if key in checkpoint} | {"callbacks": {}} | dict(more)


def matching(now: Any, before: Any, name: str) -> Any:
    """The value from a checkpoint, if its keys, types, lengths and shapes match the current value.

    Counts must not be negative, and numbers must be finite. Keys that no longer exist are left out; keys that
    the checkpoint lacks keep their current value. None matches a number or a tensor with one element.

    Raises:
        ValueError: it does not match.
    """
    if isinstance(now, Mapping):
        if not isinstance(before, Mapping):
            raise ValueError(f"{name} is not a group of values")
        return {
            key: matching(value, before[key], f"{name}.{key}") if key in before else value
            for key, value in now.items()
        }
    if isinstance(now, list | tuple):
        if not isinstance(before, list | tuple) or len(now) != len(before):
            raise ValueError(f"{name} is not a list of {len(now)}")
        pairs = zip(now, before, strict=True)
        return type(now)(matching(*pair, f"{name}.{index}") for index, pair in enumerate(pairs))
    if now is None and isinstance(before, str):
        return None  # a message, which has no effect
    if isinstance(now, Tensor):
        if not isinstance(before, Tensor) or before.shape != now.shape or before.is_complex():
            raise ValueError(f"{name} is not a tensor of real numbers of shape {tuple(now.shape)}")
        return before.detach()  # a parameter, for one, cannot be formatted as a number
    if not _fits(now, before):
        raise ValueError(f"{name} is {str(before)[:40]!r}, which does not match {str(now)[:40]!r}")
    return before


def _fits(now: Any, before: Any) -> bool:
    if now is None:
        return before is None or is_number(before) or _is_scalar(before)
    if isinstance(now, bool):
        return isinstance(before, bool)
    if isinstance(now, int):
        return is_count(before)
    if isinstance(now, float):
        return is_number(before)
    return isinstance(before, str) and len(before) < 1000 and not contains_path(before)


def contains_path(value: Any) -> bool:
    """Whether a value contains, at any depth, a string that may be a path."""
    if isinstance(value, Mapping):
        return any(contains_path(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set):
        return any(map(contains_path, value))
    return isinstance(value, str | bytes) and any(mark in str(value) for mark in ("/", "\\", "..", "~"))


def is_count(value: Any) -> bool:
    """Whether a value is a non-negative whole number, and not a boolean."""
    return type(value) is int and 0 <= value < LARGEST_INTEGER


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and not a boolean."""
    return (type(value) is int and abs(value) < LARGEST_INTEGER) or (
        type(value) is float and math.isfinite(value)
    )


def checkpointing_state(state: Any, folder: Path) -> dict[str, Any] | None:
    """The state of a `ModelCheckpoint` with its paths moved to `folder`; None if a path is not inside it.

    Args:
        state: the state in a checkpoint of this run, which may have been moved since.
        folder: the run's current checkpoint folder.
    """
    if not isinstance(state, Mapping):
        return None
    before = state.get("dirpath")
    paths = {key: _moved(state.get(key, ""), before, folder) for key in PATHS}
    kept = state.get("best_k_models", {})
    if not isinstance(kept, Mapping):
        return None
    best = {_moved(path, before, folder): score for path, score in kept.items()}
    scores = {key: state.get(key) for key in ("best_model_score", "current_score", "kth_value")}
    named = [*paths.values(), *best]
    if None in named or "" in best or not all(_is_score(one) for one in (*scores.values(), *best.values())):
        return None
    if best and paths["kth_best_model_path"] not in best:
        return None
    return {**scores, **paths, "best_k_models": best, "dirpath": str(folder)}


def _is_score(value: Any) -> bool:
    """Whether a value can be the value of a metric, which may be infinite or missing."""
    return value is None or type(value) in (int, float) or _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    """Whether a value is a tensor of one real number."""
    return isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex()


def _moved(path: Any, before: Any, folder: Path) -> str | None:
    """The path of a file in `folder` that was in the folder `before`; None if it is not there.

    With all links resolved, the file must be inside the folder.
    """
    if path == "":
        return ""
    if not isinstance(path, str) or not isinstance(before, str) or "\0" in path + before:
        return None
    if not path.startswith(f"{before}/"):
        return None
    found = os.path.join(folder, os.path.relpath(path, before))  # noqa: PTH118  # Path keeps ".."
    return found if is_inside(found, folder) and is_file(found) else None


def interrupted_epoch_state(state: Any) -> dict[str, Any]:
    """Check and return the state that a run saved in the middle of an epoch.

    Raises:
        ValueError: a part of it is invalid.
    """
    if not isinstance(state, Mapping):
        raise ValueError("the state of the interrupted epoch is missing or invalid")
    counts = all(is_count(state[key]) for key in ("batch", "logged"))
    logs, metrics, shown = (dict(state[key]) for key in ("logs", "metrics", "shown"))
    if (
        not counts
        or type(state["done"]) is not bool
        or not all(isinstance(name, str) for part in (logs, metrics, shown) for name in part)
        or not all(map(is_count, logs.values()))
        or not all(map(_is_scalar, metrics.values()))
        or not all(type(one) in (int, float) for one in shown.values())
        or not isinstance(state["processes"], list)
    ):
        raise ValueError("the state of the interrupted epoch is not in the form that training saves")
    return {**state, "logs": logs, "metrics": metrics, "shown": shown}


def metric_states(states: Any, defaults: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The accumulated states of a metric, checked against the names, types and shapes of its defaults.

    Raises:
        ValueError: they do not match.
    """
    if not isinstance(states, Mapping) or not states.keys() <= {*defaults, "_update_count"}:
        raise ValueError(f"{name} has different states")
    for key, value in states.items():
        now = defaults.get(key)
        if key == "_update_count":
            fits = is_count(value)
        elif isinstance(now, list):
            fits = isinstance(value, list) and all(
                isinstance(one, Tensor) and not one.is_complex() for one in value
            )
        else:
            fits = (
                isinstance(value, Tensor)
                and isinstance(now, Tensor)
                and not value.is_complex()
                and (value.shape == now.shape or not now.numel())  # a state that starts empty may grow
            )
        if not fits:
            raise ValueError(f"{name}.{key} does not match the metric's state")
    return dict(states)


def check_random_states(states: Any) -> None:
    """Check the state of NumPy's generator, which would accept a position past the end of its words.

    Raises:
        ValueError: the position or the number of words is wrong.
    """
    words, position = states["numpy"][1], states["numpy"][2]
    if not is_count(position) or position > len(words) or len(words) != _WORDS:
        raise ValueError("the state of NumPy's random numbers is invalid")
