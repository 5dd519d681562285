"""What of a checkpoint's state is put back into a training: only what has the form of what is there now.

Lightning restores whatever a checkpoint holds. A `ModelCheckpoint` later deletes, recursively, the "previous
best" that its state names; a progress or a schedule takes over any attribute. So each part is compared with
that of the training that is about to go on, which has just been built: the same keys, types and shapes.
Errors are `ValueError`s, which the caller turns into one line with the checkpoint's name.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

KEPT = (
    *("epoch", "global_step", "pytorch-lightning_version", "state_dict", "optimizer_states"),
    *("lr_schedulers", "loops", "current_model_state", "averaging_state", "MixedPrecision"),
)
"""Parts of a checkpoint of another run that training begins with; none of them names a place."""
LEGACY = ("native_amp_scaling_state", "amp_scaling_state", "hparams_name", "hparams_type")
"""Parts that Lightning reads in checkpoints of old versions, and that none of ours has."""
MOST = 2**53
"""The largest count."""
PLACES = ("best_model_path", "kth_best_model_path", "last_model_path")
"""What a `ModelCheckpoint` remembers, and deletes when it is surpassed."""
_WORDS = 624  # of the state of a Mersenne Twister
RATES = ("lr", "initial_lr", "momentum", "betas")
"""Options of an optimiser that schedules change while it trains; all others are those given now."""


def check_parts(checkpoint: Mapping[str, Any]) -> None:
    """Refuse a checkpoint without the state of a training.

    Raises:
        ValueError: a part of it is missing, or has another form.
    """
    if not isinstance(checkpoint.get("callbacks"), dict):
        raise ValueError("it has weights, and no state of a training")
    version = str(checkpoint.get("pytorch-lightning_version"))[:40]
    if not re.fullmatch(r"[2-9]\.\d+(\.\w+)*", version):
        raise ValueError(f"it has the version {version}, which is none of Lightning's from 2.0")
    if not all(is_count(checkpoint.get(key)) for key in ("epoch", "global_step")):
        raise ValueError("its epoch or step is no count")


def of_another_run(checkpoint: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What training begins with from the checkpoint of another run: weights, optimiser, schedule, counts.

    Args:
        checkpoint: what was read.
        more: other parts that are to be kept, already checked.
    """
    return {key: checkpoint[key] for key in KEPT if key in checkpoint} | {"callbacks": {}} | dict(more)


def alike(now: Any, before: Any, name: str) -> Any:
    """A value from a checkpoint that has the form of the present one: keys, types, lengths and shapes.

    Counts are not negative, numbers are finite. Keys that are not there now are left out; keys that the
    checkpoint lacks keep their present value. In the place of None a number or a tensor of one is taken.

    Raises:
        ValueError: it has another form.
    """
    if isinstance(now, Mapping):
        if not isinstance(before, Mapping):
            raise ValueError(f"{name} is no group of values")
        return {
            key: alike(value, before[key], f"{name}.{key}") if key in before else value
            for key, value in now.items()
        }
    if isinstance(now, list | tuple):
        if not isinstance(before, list | tuple) or len(now) != len(before):
            raise ValueError(f"{name} is no list of {len(now)}")
        pairs = zip(now, before, strict=True)
        return type(now)(alike(*pair, f"{name}.{place}") for place, pair in enumerate(pairs))
    if now is None and isinstance(before, str):
        return None  # a message, of which nothing depends
    if isinstance(now, Tensor):
        if not isinstance(before, Tensor) or before.shape != now.shape:
            raise ValueError(f"{name} is no tensor of shape {tuple(now.shape)}")
        return before
    if not _fits(now, before):
        raise ValueError(f"{name} is {str(before)[:40]!r}, not as {str(now)[:40]!r}")
    return before


def _fits(now: Any, before: Any) -> bool:
    if now is None:
        return before is None or is_number(before) or (isinstance(before, Tensor) and before.numel() == 1)
    if isinstance(now, bool):
        return isinstance(before, bool)
    if isinstance(now, int):
        return is_count(before)
    if isinstance(now, float):
        return is_number(before)
    return isinstance(before, str) and len(before) < 1000 and not names_place(before)


def names_place(value: Any) -> bool:
    """Whether a text that may be the path of a file is anywhere in a value."""
    if isinstance(value, Mapping):
        return any(names_place(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set):
        return any(map(names_place, value))
    return isinstance(value, str | bytes) and any(one in str(value) for one in ("/", "\\", "..", "~"))


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 0 up, and no boolean."""
    return type(value) is int and 0 <= value < MOST


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no boolean."""
    return (type(value) is int and abs(value) < MOST) or (type(value) is float and math.isfinite(value))


def of_best(state: Any, folder: Path) -> dict[str, Any] | None:
    """The state of a `ModelCheckpoint`, its files in this folder; None if any is not one of the folder's.

    Args:
        state: from a checkpoint of this run, which may have been moved since.
        folder: where it keeps its checkpoints now.
    """
    if not isinstance(state, Mapping):
        return None
    place = _finder(state.get("dirpath"), folder)
    paths = {key: place(state.get(key, "")) for key in PLACES}
    kept = state.get("best_k_models", {})
    if not isinstance(kept, Mapping):
        return None
    best = {place(path): score for path, score in kept.items()}
    scores = {key: state.get(key) for key in ("best_model_score", "current_score", "kth_value")}
    named = [*paths.values(), *best]
    if None in named or "" in best or not all(_is_score(one) for one in (*scores.values(), *best.values())):
        return None
    if best and paths["kth_best_model_path"] not in best:
        return None
    return {**scores, **paths, "best_k_models": best, "dirpath": str(folder)}


def _is_score(value: Any) -> bool:
    """Whether a value is a metric's: it may be infinite, or missing."""
    return value is None or type(value) in (int, float) or (isinstance(value, Tensor) and value.numel() == 1)


def _finder(before: Any, folder: Path) -> Callable[[Any], str | None]:
    """Finds a file of the folder by the path that it had where the folder was before; None if it is none.

    The file has to be in the folder in truth, whatever links there are.
    """

    def find(path: Any) -> str | None:
        if path == "":
            return ""
        if not isinstance(path, str) or not isinstance(before, str) or "\0" in path + before:
            return None
        if not path.startswith(f"{before}/"):
            return None
        found = os.path.join(folder, os.path.relpath(path, before))  # noqa: PTH118  # Path keeps ".."
        inside = Path(os.path.realpath(found)).is_relative_to(os.path.realpath(folder))
        return found if inside and os.path.isfile(found) else None  # noqa: PTH113

    return find


def of_optimizer(optimizer: torch.optim.Optimizer, state: Any) -> dict[str, Any]:
    """An optimiser's state that fits its parameters, with its present options but for the rates.

    Raises:
        ValueError: it does not fit, or holds anything but numbers and tensors.
    """
    now = optimizer.state_dict()
    if not isinstance(state, Mapping) or not isinstance(state.get("state"), Mapping):
        raise ValueError("the optimiser's state is none")
    groups = state.get("param_groups")
    if not isinstance(groups, list) or len(groups) != len(now["param_groups"]):
        raise ValueError("the optimiser has other groups of parameters")
    taken = [_of_group(*pair) for pair in zip(now["param_groups"], groups, strict=True)]
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    kept = {}
    for place, values in state["state"].items():
        if not is_count(place) or place >= len(parameters) or not isinstance(values, Mapping):
            raise ValueError("the optimiser has other parameters")
        if type(optimizer).__module__.startswith("torch.optim.") and not isinstance(
            optimizer, torch.optim.LBFGS
        ):
            _check_kinds(values)
        _check_values(values, parameters, place, exact=bool(taken[0].get("fused")))
        kept[place] = dict(values)
    return {"state": kept, "param_groups": taken}


def _of_group(now: Mapping[str, Any], before: Any) -> dict[str, Any]:
    if not isinstance(before, Mapping) or before.get("params") != now["params"]:
        raise ValueError("the optimiser has other parameters")
    rates = {key: (as_rates(now[key]), before[key]) for key in RATES if key in now and key in before}
    return {**now} | {key: alike(*pair, f"the optimiser's {key}") for key, pair in rates.items()}


def as_rates(values: Any) -> Any:
    """Rates that were given as whole numbers, as what they are."""
    if isinstance(values, list | tuple):
        return type(values)(map(as_rates, values))
    return float(values) if isinstance(values, int) else values


def _check_kinds(values: Mapping[Any, Any]) -> None:
    for name, value in values.items():
        if not (isinstance(value, Tensor) or value is None or (name == "step" and is_number(value))):
            raise ValueError(f"the optimiser's {str(name)[:40]} is {str(value)[:40]!r}, and no tensor")


def _check_values(values: Mapping[Any, Any], parameters: list[Tensor], place: int, exact: bool) -> None:
    """Refuse tensors of other shapes than the parameter's; a fused kernel would read beyond their ends."""
    shape, total = parameters[place].shape, sum(one.numel() for one in parameters)
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Tensor):
                same = len(one.shape) == len(shape) and all(
                    mine in (its, 1) for mine, its in zip(one.shape, shape, strict=True)
                )
                flat = len(parameters) == 1 or place == 0
                fits = one.shape == shape or one.numel() == 1 or (not exact and same)
                if not fits and not (not exact and flat and one.shape == (total,)):
                    raise ValueError(f"the optimiser's {str(name)[:40]} has the shape {tuple(one.shape)}")
            elif not (one is None or type(one) is bool or is_number(one)):
                raise ValueError(f"the optimiser's {str(name)[:40]} is {str(one)[:40]!r}")


def of_interruption(state: Any) -> dict[str, Any]:
    """What a run saved of itself in the middle of an epoch.

    Raises:
        ValueError: a part of it has another form.
    """
    if not isinstance(state, Mapping):
        raise ValueError("the state of the interrupted epoch is none")
    counts = all(is_count(state[key]) for key in ("batch", "logged"))
    logs, metrics, shown = (dict(state[key]) for key in ("logs", "metrics", "shown"))
    if (
        not counts
        or type(state["done"]) is not bool
        or not all(isinstance(name, str) for part in (logs, metrics, shown) for name in part)
        or not all(map(is_count, logs.values()))
        or not all(isinstance(one, Tensor) and one.numel() == 1 for one in metrics.values())
        or not all(type(one) in (int, float) for one in shown.values())
        or not isinstance(state["processes"], list)
    ):
        raise ValueError("the state of the interrupted epoch is not one that a training saves")
    return {**state, "logs": logs, "metrics": metrics, "shown": shown}


def of_metric(states: Any, defaults: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a metric has summed up, by the names and forms of its states.

    Raises:
        ValueError: it has another form.
    """
    if not isinstance(states, Mapping) or not states.keys() <= {*defaults, "_update_count"}:
        raise ValueError(f"{name} has other sums")
    for key, value in states.items():
        now = defaults.get(key)
        if key == "_update_count":
            fits = is_count(value)
        elif isinstance(now, list):
            fits = isinstance(value, list) and all(isinstance(one, Tensor) for one in value)
        else:
            fits = isinstance(value, Tensor) and isinstance(now, Tensor) and _is_shaped(value, now)
        if not fits:
            raise ValueError(f"{name}.{key} is not what is summed up")
    return dict(states)


def _is_shaped(value: Tensor, now: Tensor) -> bool:
    return value.shape == now.shape or not now.numel()  # what is empty at first may grow


def check_random(states: Any) -> None:
    """Refuse states of random number generators that these would take, and read beyond their end.

    Raises:
        ValueError: a place in a generator's numbers lies outside of them.
    """
    place = states["numpy"][2]
    if not is_count(place) or place > len(states["numpy"][1]) or len(states["numpy"][1]) != _WORDS:
        raise ValueError("the state of NumPy's random numbers is none")
