"""The arguments of a call, from the inputs that a user gives for a model."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any


def arguments_of(function: Callable[..., Any], inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: from a tuple, from a mapping, or a single positional one.

    Args:
        function: what is called, such as a model's forward pass. It gets a mapping as its one argument if it
            has no parameters of those names, but can take one argument.
        inputs: the inputs.
    """
    names = getattr(inputs, "keys", None)
    if not callable(names):
        return inputs if isinstance(inputs, tuple) else (inputs,), {}
    named = {name: inputs[name] for name in names()}  # iterating over a mapping may give rows, not names
    return ((inputs,), {}) if _takes_whole(function, named) else ((), named)


def _takes_whole(function: Callable[..., Any], named: Mapping[str, Any]) -> bool:
    """Whether a function can be called with a mapping, but not with its items as keyword arguments."""
    try:
        parameters = signature(function)
        parameters.bind(named)
    except (TypeError, ValueError):  # ValueError: it has no signature
        return False
    if named.keys() & parameters.parameters.keys():
        return False
    try:
        parameters.bind(**named)
    except TypeError:
        return True
    return False
