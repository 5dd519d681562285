"""Which modules of a model call `scaled_dot_product_attention`, as seen in a run."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from attention_lab.attention.attention import Attention
from attention_lab.attention.recording.site import CALL_MODULE, first_argument, numbers_of_heads
from attention_lab.attention.replacing.calls import PART, Calls, FoundCall, without_values
from attention_lab.attention.replacing.dimensions import in_four_dimensions
from attention_lab.attention.replacing.scaled_dot_product import (
    FUNCTION,
    NAME,
    WithMechanism,
    methods_that_call,
)

_OTHERS = Attention, nn.MultiheadAttention
"""Classes that call the function, but are replaced in other ways or are ours."""


@contextmanager
def noted_fused_calls(model: nn.Module) -> Iterator[Calls]:
    """The calls of the function by modules of a model that runs inside, those of mechanisms included."""
    calls = Calls({}, [])
    changed: list[tuple[Any, type[WithMechanism]]] = [
        (one, type(one)) for one in model.modules() if isinstance(one, WithMechanism)
    ]
    for one, kind in changed:
        one.__class__ = kind.original
    try:
        with _Noting(model) as mode:
            yield calls
        calls.last.update(mode.calls)
        calls.missed.extend(one for one in model.modules() if _would_call(one) and one not in mode.calls)
    finally:
        for one, kind in changed:
            one.__class__ = kind


class _Noting(TorchFunctionMode):
    """Notes the last call of the function by each module of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: dict[nn.Module, FoundCall] = {}
        self.modules = set(model.modules())
        self.frames: dict[nn.Module, FrameType] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is FUNCTION:
            self._note(*args, **kwargs or {})
        return func(*args, **kwargs or {})

    def _note(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> None:
        found = self._caller(sys._getframe())
        if found is None or isinstance(found[0], _OTHERS):
            return
        module, frame = found
        again = self.frames.get(module) is frame
        self.frames[module] = frame  # kept alive, so that no other call gets the same frame
        heads = next(numbers_of_heads(module), None)
        given = in_four_dimensions(query, key, value, grouped=options.get("enable_gqa", False), heads=heads)
        reason = _reason_against(module, again)
        self.calls[module] = FoundCall(without_values(given.query, module), given.key.shape[-1], reason)

    def _caller(self, frame: FrameType | None) -> tuple[nn.Module, FrameType] | None:
        """The module whose forward pass runs in a frame or above, and the outermost frame of that pass."""
        found: tuple[nn.Module, FrameType] | None = None
        while frame is not None:
            module = _running(frame)
            if module is not None and module in self.modules:
                if found is not None and found[0] is not module:
                    break
                found = module, frame
            frame = frame.f_back
        return found


def _running(frame: FrameType) -> nn.Module | None:
    """The module that is called in a frame, or whose forward method runs in it."""
    code = frame.f_code
    if code is not CALL_MODULE and code.co_name != "forward":
        return None
    module = first_argument(frame)
    if not isinstance(module, nn.Module):
        return None
    method: Any = inspect.unwrap(type(module).forward)
    return module if code in (CALL_MODULE, getattr(method, "__code__", None)) else None


def _reason_against(module: nn.Module, again: bool) -> str | None:
    kind = type(module).__name__
    if again:
        return f"{kind} calls {NAME} several times in a forward pass, but can have only one mechanism"
    if "forward" in vars(module):
        return f"the forward method of a {kind} is replaced already, as accelerate does"
    if isinstance(module, fx.GraphModule):
        return f"a {kind} is generated code: replace the attention of the model that it is made from"
    for name, part in module.named_modules():
        if isinstance(part, _OTHERS) and name.rpartition(".")[2] != PART:
            return (
                f"{kind} calls {NAME} and contains {name}, whose calls cannot be told from its own: "
                f"move the call of {NAME} to a module that contains no other attention"
            )
    return None


def _would_call(module: nn.Module) -> bool:
    """Whether the code of a module's class names the function."""
    return not isinstance(module, _OTHERS) and bool(methods_that_call(type(module)))
