"""Running code that no recording observes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode


class Watching(TorchFunctionMode):
    """A mode that only observes the functions that are called. It may end before modes that began later."""

    def __exit__(self, *error: Any) -> None:
        modes: list[TorchFunctionMode] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        last = max((index for index, mode in enumerate(modes) if mode is self), default=None)
        set_modes([mode for index, mode in enumerate(modes) if index != last])


@contextmanager
def unobserved() -> Iterator[None]:
    """Hide the functions inside from recordings: torch leaves its fast paths while any mode is active."""
    before = without_recordings()
    try:
        yield
    finally:
        set_modes(before)


def without_recordings() -> list[TorchFunctionMode]:
    """Switch off the modes of recordings; returns all modes that were active."""
    before: list[TorchFunctionMode] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    set_modes([mode for mode in before if not isinstance(mode, Watching)])
    return before


def set_modes(modes: list[TorchFunctionMode]) -> None:
    """Replace the active modes."""
    for _ in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
        _pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]


def compiled_method(module: nn.Module) -> str | None:
    """The method that runs the program of a compiled module; None for a module that runs uncompiled."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or dynamo.eval_frame._stance.stance == "force_eager":
        return None
    if module.__dict__.get("_compiled_call_impl") is not None:
        return "_compiled_call_impl"
    return "forward" if isinstance(module, dynamo.OptimizedModule) else None
