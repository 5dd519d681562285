"""The arguments of a call, from the inputs that a user gives for a model."""

from typing import Any


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name: those in a tuple, those in a mapping, or else a single one."""
    names = getattr(inputs, "keys", None)
    if callable(names):  # also where iteration gives rows, not names
        return (), {name: inputs[name] for name in names()}
    return inputs if isinstance(inputs, tuple) else (inputs,), {}
