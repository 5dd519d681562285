"""Run a module temporarily in evaluation mode, on any inputs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; afterwards restore the mode of each submodule, as some may be frozen."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name: those in a tuple, those in a mapping, or else a single one."""
    if isinstance(inputs, Mapping) or callable(getattr(inputs, "keys", None)):
        return (), {name: inputs[name] for name in inputs}
    return inputs if isinstance(inputs, tuple) else (inputs,), {}
