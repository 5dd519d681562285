"""The arguments of a call, from the inputs that a user gives for a model."""

from typing import Any


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: from a tuple, from a mapping, or a single positional one."""
    names = getattr(inputs, "keys", None)
    if callable(names):  # a mapping, even if iterating over it gives rows instead of names
        return (), {name: inputs[name] for name in names()}
    return inputs if isinstance(inputs, tuple) else (inputs,), {}
