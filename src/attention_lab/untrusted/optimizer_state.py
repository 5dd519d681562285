"""Check an optimiser's state in a checkpoint before training resumes from it; see `training_state`."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attention_lab.untrusted.training_state import is_count, is_number, matching

RATES = ("lr", "initial_lr", "momentum", "betas")
"""Optimiser options that schedules change during training; the others keep their current values."""


def optimizer_state(optimizer: torch.optim.Optimizer, state: Any) -> dict[str, Any]:
    """A checkpoint's state for this optimiser; all options except the rates keep their current values.

    Raises:
        ValueError: it does not fit the parameters, or contains anything but numbers and tensors.
    """
    now = optimizer.state_dict()
    if not now:  # Lightning's stand-in for a model without parameters
        return {}
    if not isinstance(state, Mapping) or not isinstance(state.get("state"), Mapping):
        raise ValueError("the optimiser's state is missing or invalid")
    groups = state.get("param_groups")
    if not isinstance(groups, list) or len(groups) != len(now["param_groups"]):
        raise ValueError("the optimiser has different parameter groups")
    new_groups = [_group_state(*pair) for pair in zip(now["param_groups"], groups, strict=True)]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept = {}
    for index, values in state["state"].items():
        if not is_count(index) or index >= len(parameters) or not isinstance(values, Mapping):
            raise ValueError("the optimiser has different parameters")
        if type(optimizer).__module__.startswith("torch.optim.") and not isinstance(
            optimizer, torch.optim.LBFGS
        ):
            _check_types(values)
        _check_shapes(values, parameters, index, exact=any(group.get("fused") for group in new_groups))
        kept[index] = {name: _laid_out(value, parameters[index]) for name, value in values.items()}
    return {"state": kept, "param_groups": new_groups}


def _group_state(now: Mapping[str, Any], before: Any) -> dict[str, Any]:
    if not isinstance(before, Mapping) or before.get("params") != now["params"]:
        raise ValueError("the optimiser has different parameters")
    rates = {key: (as_floats(now[key]), before[key]) for key in RATES if key in now and key in before}
    return {**now} | {key: matching(*pair, f"the optimiser's {key}") for key, pair in rates.items()}


def as_floats(values: Any) -> Any:
    """Rates that may have been given as integers, converted to floats at any depth."""
    if isinstance(values, list | tuple):
        return type(values)(map(as_floats, values))
    return float(values) if isinstance(values, int) else values


def _check_types(values: Mapping[Any, Any]) -> None:
    for name, value in values.items():
        if not (isinstance(value, Tensor) or value is None or (name == "step" and is_number(value))):
            raise ValueError(f"the optimiser's {str(name)[:40]} is {str(value)[:40]!r}, not a tensor")


def _check_shapes(values: Mapping[Any, Any], parameters: list[Tensor], index: int, exact: bool) -> None:
    """Reject tensors that do not fit the parameter `index`: a fused kernel would write past their ends."""
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, Tensor):
                if not (one is None or type(one) is bool or is_number(one)):
                    raise ValueError(f"the optimiser's {str(name)[:40]} is {str(one)[:40]!r}, not a number")
            elif not _fits_parameter(name, one.shape, parameters, index, exact):
                raise ValueError(
                    f"the optimiser's {str(name)[:40]} has the shape {tuple(one.shape)}, "
                    f"but its parameter has {tuple(parameters[index].shape)}"
                )


def _fits_parameter(name: object, own: torch.Size, parameters: list[Tensor], index: int, exact: bool) -> bool:
    """Whether a tensor of an optimiser's state has the shape of its parameter, or a single element.

    If it must be `exact`, only the number of steps has a single element. Otherwise, some dimensions may have
    size 1, as in Adafactor, and the state of the first parameter may be that of all parameters as one vector,
    as in L-BFGS.
    """
    shape = parameters[index].shape
    if exact:
        return own.numel() == 1 if name == "step" else own == shape
    if own == shape or own.numel() == 1:
        return True
    reduced = len(own) == len(shape) and all(mine in (its, 1) for mine, its in zip(own, shape, strict=True))
    return reduced or (index == 0 and own == (sum(parameter.numel() for parameter in parameters),))


def _laid_out(value: Any, parameter: Tensor) -> Any:
    """A tensor of the parameter's shape in its memory layout, whatever layout the checkpoint gives it.

    A fused kernel takes both for consecutive numbers. From a view whose strides are 0, it would write past
    the end of the storage.
    """
    if (
        not isinstance(value, Tensor)
        or value.shape != parameter.shape
        or value.stride() == parameter.stride()
    ):
        return value
    layout = parameter.shape, parameter.stride()
    return torch.empty_strided(*layout, dtype=value.dtype, device=value.device).copy_(value.detach())
