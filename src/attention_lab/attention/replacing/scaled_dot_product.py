"""Mechanisms in modules that call `scaled_dot_product_attention`, as those of timm, diffusers and nanoGPT.

Such a module gets a class derived from its own, whose forward pass runs in a `TorchFunctionMode` that
computes the call by the mechanism. So no other code sees a changed function, and models can be compiled.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType, FunctionType
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attention_lab.attention.attention import Attention
from attention_lab.attention.multihead import grouped_attention, remember_groups
from attention_lab.attention.recording.fused import plain_mask
from attention_lab.attention.recording.site import CALL_MODULE
from attention_lab.attention.replacing.attend import (
    check_first_key,
    mechanism_in,
    set_dropout,
    visible_and_bias,
    with_scale_of_model,
)
from attention_lab.attention.replacing.calls import PART, Call, Calls, without_values
from attention_lab.attention.replacing.dimensions import in_four_dimensions
from attention_lab.attention.windows import Global, LocalP

_FUNCTION = F.scaled_dot_product_attention
_NAME = _FUNCTION.__name__
_OTHERS = Attention, nn.MultiheadAttention
"""Classes that call the function, but are replaced in other ways or are ours."""


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The context `[..., Q, dv]` by the mechanism in a module, from the arguments of the function.

    Raises:
        TypeError: nested tensors, or something that hides the mechanism has taken its place.
        ValueError: hard pooling with dropout, or a window whose queries are at unknown positions.
    """
    attention = mechanism_in(module)
    assert attention is not None
    given = in_four_dimensions(query, key, value, plain_mask(attn_mask, query.device), grouped=enable_gqa)
    query, key, value = given.query, given.key, given.value
    mask, bias = visible_and_bias(given.mask)
    queries = query.shape[2]
    if is_causal:  # a query sees the keys up to its own position, counted from the first key
        key, value = key[:, :, :queries], value[:, :, :queries]
        mask, bias = (None if one is None else one[..., :queries] for one in (mask, bias))
    _check_window(attention, queries, key.shape[2], mask, causal=is_causal)
    set_dropout(attention, dropout_p)
    if dropout_p:
        attention.dropout.training = True  # the function drops weights in evaluation, too
    key = with_scale_of_model(attention, key, scale)
    memory = remember_groups(attention, key, value, mask, query.shape[1], causal=is_causal)
    context = grouped_attention(attention, query, memory, bias=bias)
    return context.reshape(*given.shape, queries, value.shape[-1])


def use_mechanism(module: nn.Module) -> None:
    """Let a module attend by its mechanism."""
    kind: Any = type(module)
    if not issubclass(kind, _WithMechanism):
        module.__class__ = _with_mechanism(kind)


@contextmanager
def noted_calls(model: nn.Module) -> Iterator[Calls]:
    """The calls of the function by modules of a model that runs inside, those of mechanisms included."""
    calls = Calls({}, [])
    changed: list[tuple[Any, type[_WithMechanism]]] = [
        (one, type(one)) for one in model.modules() if isinstance(one, _WithMechanism)
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


def _check_window(attention: Attention, queries: int, keys: int, mask: Tensor | None, causal: bool) -> None:
    if isinstance(attention.window, Global):
        return
    if queries != keys and not causal:
        raise ValueError(
            f"{type(attention.window).__name__} needs the positions of the queries, which {_NAME} does not "
            "tell if there are more keys or fewer: replace only attentions with as many, by their names"
        )
    if isinstance(attention.window, LocalP):
        check_first_key(queries, keys, mask, None)


class _Mode(TorchFunctionMode):
    """Computes the calls by the mechanism of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.calls = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.unflatten:  # the compiler does not follow the `super()` in this one method
            return args[0].unflatten(*args[1:], **kwargs or {})
        if func is not _FUNCTION:
            return func(*args, **kwargs or {})
        self.calls += 1
        return attend(self.module, *args, **kwargs or {})


class _WithMechanism(nn.Module):
    """A module that attends by its mechanism.

    Attributes:
        original: the class of the module before.
    """

    original: type[nn.Module]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward pass of the module.

        Raises:
            ValueError: the module has not called the function exactly once, so it may have attended without
                its mechanism, or twice with the same one.
        """
        mode = _Mode(self)
        with mode:
            result = super().forward(*args, **kwargs)
        if mode.calls != 1:
            raise ValueError(
                f"{type(self).__name__} has called {_NAME} {mode.calls} times in a forward pass, "
                "and not once, as when its attention was replaced"
            )
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        return _made, (self.original,), *reduced[2:]


@cache
def _with_mechanism(original: Any) -> type[_WithMechanism]:
    """A class derived from another one, with its name."""
    copied = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    bases = _WithMechanism, original
    kind: type[_WithMechanism] = type(original)(original.__name__, bases, {**copied, "original": original})
    return kind


def _made(original: Any) -> nn.Module:
    kind = _with_mechanism(original)
    return kind.__new__(kind)


class _Noting(TorchFunctionMode):
    """Notes the calls of the function by modules of a model, the last of each."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: dict[nn.Module, Call] = {}
        self.modules = set(model.modules())
        self.frames: dict[nn.Module, FrameType] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is _FUNCTION:
            self._note(*args, **kwargs or {})
        return func(*args, **kwargs or {})

    def _note(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> None:
        frame = sys._getframe()
        while frame.f_code is not CALL_MODULE or frame.f_locals["self"] not in self.modules:
            if frame.f_back is None:
                return
            frame = frame.f_back
        module = frame.f_locals["self"]
        if isinstance(module, _OTHERS):
            return
        again = self.frames.get(module) is frame
        self.frames[module] = frame  # kept, so that no other call has the same
        given = in_four_dimensions(query, key, value, grouped=options.get("enable_gqa", False))
        reason = _reason_against(module, again)
        self.calls[module] = Call(without_values(given.query), given.key.shape[-1], reason)


def _reason_against(module: nn.Module, again: bool) -> str | None:
    kind = type(module).__name__
    if again:
        return f"{kind} calls {_NAME} several times in a forward pass, but can have only one mechanism"
    if "forward" in vars(module):
        return f"the forward method of a {kind} is replaced already, as accelerate does"
    for name, part in module.named_modules():
        if isinstance(part, _OTHERS) and name.rpartition(".")[2] != PART:
            return f"{kind} calls {_NAME} and contains {name}, whose calls cannot be told from its own"
    return None


def _would_call(module: nn.Module) -> bool:
    """Whether the code of a module's class names the function."""
    if isinstance(module, _OTHERS):
        return False
    methods = [part for kind in type(module).__mro__ for part in vars(kind).values()]
    functions = [inspect.unwrap(one) for one in methods if isinstance(one, FunctionType)]
    return any(_NAME in one.__code__.co_names for one in functions if isinstance(one, FunctionType))
