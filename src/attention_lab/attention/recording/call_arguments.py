"""The arguments of a call, from the inputs that a user gives for a model."""

from collections.abc import Mapping
from typing import Any


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name: those in a tuple, those in a mapping, or else a single one."""
    if isinstance(inputs, Mapping) or callable(getattr(inputs, "keys", None)):
        return (), {name: inputs[name] for name in inputs}
    return inputs if isinstance(inputs, tuple) else (inputs,), {}
