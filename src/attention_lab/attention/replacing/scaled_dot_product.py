"""Put mechanisms into modules that call `scaled_dot_product_attention`, as in timm, diffusers and nanoGPT.

Such a module gets a class derived from its own, whose methods run in a `TorchFunctionMode` that computes the
call with the mechanism. So no other code sees a changed function, and models can be compiled.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from attention_lab.attention.attention import Attention
from attention_lab.attention.fast.grouped import grouped_attention, remember_groups
from attention_lab.attention.recording.fused import plain_mask
from attention_lab.attention.recording.site import numbers_of_heads
from attention_lab.attention.replacing.attend import (
    check_first_key,
    mechanism_in,
    set_dropout,
    visible_and_bias,
    with_scale_of_model,
)
from attention_lab.attention.replacing.calls import PART
from attention_lab.attention.replacing.dimensions import in_four_dimensions
from attention_lab.attention.torch_state import not_compiled_alone
from attention_lab.attention.windows import Global, LocalP

FUNCTION = F.scaled_dot_product_attention
NAME = FUNCTION.__name__
_CHECKPOINT = inspect.unwrap(checkpoint).__code__


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
    """The context `[..., Q, dv]` from the mechanism in a module, given the arguments of the function.

    Raises:
        TypeError: nested tensors; or the mechanism is missing, or hidden by another object in its place.
        ValueError: hard pooling with dropout, or a score or window that would count from an unknown position.
    """
    attention = mechanism_in(module)
    if attention is None:
        raise TypeError(
            f"{type(module).__name__} has no mechanism; a copy may lose it if its class has its own way of "
            "copying: replace its attention again"
        )
    attn_mask = plain_mask(attn_mask, query.device)
    heads = next(numbers_of_heads(module), None) if query.dim() > 4 else None
    given = in_four_dimensions(query, key, value, attn_mask, grouped=enable_gqa, heads=heads)
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
    return given.restored(grouped_attention(attention, query, memory, bias=bias))


def use_mechanism(module: nn.Module) -> None:
    """Let a module attend with its mechanism."""
    kind: Any = type(module)
    if not issubclass(kind, WithMechanism):
        module.__class__ = _with_mechanism(kind)


def _check_window(attention: Attention, queries: int, keys: int, mask: Tensor | None, causal: bool) -> None:
    """Reject calls in which the score or the window would count from an unknown position."""
    if attention.score.depends_on_position:
        check_first_key(attention.score, mask, slides=True)
    if isinstance(attention.window, Global):
        return
    if queries != keys and not causal:
        raise ValueError(
            f"{type(attention.window).__name__} needs the positions of the queries, which {NAME} tells only "
            "if there are as many keys as queries: choose such attentions with names=[...]"
        )
    if isinstance(attention.window, LocalP):
        check_first_key(attention.window, mask)


def methods_that_call(kind: type[nn.Module]) -> set[str]:
    """The names of the methods of a class, or of its bases, that call the function.

    Their code names the function, or calls such a method of a base class, by `super()` or by the name of the
    base: that call reaches the method of the base even if a derived class overrides it.
    """
    methods = [
        (name, {*_names_in(part)})
        for one in kind.__mro__
        for name, part in vars(one).items()
        if isinstance(part, FunctionType)
    ]
    bases = {"super", *(one.__name__ for one in kind.__mro__)}
    found, before = {name for name, named in methods if NAME in named}, None
    while found != before:
        before = found
        found = before | {name for name, named in methods if named & bases and named & before}
    return found


def _names_in(method: FunctionType) -> Iterator[str]:
    """The names in the code of a method, and in the functions inside it."""
    pending = [getattr(inspect.unwrap(method), "__code__", None)]
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            yield from code.co_names
            pending.extend(code.co_consts)


class _Mode(TorchFunctionMode):
    """Computes the calls with the mechanism of a module.

    Attributes:
        module: the module.
        calls: the number of calls.
        paused: whether a module inside this one attends now, whose mechanism may call the function.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.calls = 0
        self.paused = False

    @not_compiled_alone
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.unflatten:  # the compiler does not follow the `super()` in this one method
            return args[0].unflatten(*args[1:], **kwargs or {})
        if func is not FUNCTION or self.paused:
            return func(*args, **kwargs or {})
        self.calls += 1
        _check_checkpoint(self.module)
        outer = _modes()
        for one in outer:
            one.paused = True
        try:
            return attend(self.module, *args, **kwargs or {})
        finally:
            for one in outer:
                one.paused = False


def _modes() -> list[_Mode]:
    """The active modes of this kind, the innermost last."""
    active = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return [one for one in active if isinstance(one, _Mode)]


def _check_checkpoint(module: nn.Module) -> None:
    """Reject a checkpoint between a method and its call, as the backward pass would call outside the mode."""
    frame: FrameType | None = None if torch.compiler.is_compiling() else sys._getframe()
    while frame is not None and frame.f_code is not _BY_MECHANISM:
        if frame.f_code is _CHECKPOINT:
            raise ValueError(
                f"{type(module).__name__} checkpoints its attention alone, which the backward pass would "
                "compute again without the mechanism: checkpoint the module as a whole"
            )
        frame = frame.f_back


def _by_mechanism(
    module: nn.Module, name: str, method: Callable[..., Any], /, *args: Any, **options: Any
) -> Any:
    """Call a method of a module inside its `_Mode`, unless its forward pass has already entered one."""
    forward = name == "forward"
    if not forward and any(one.module is module for one in _modes()[-1:]):
        return method(*args, **options)
    mode = _Mode(module)
    with mode:
        result = method(*args, **options)
    if mode.calls > 1 or (forward and mode.calls == 0):
        run = "a forward pass" if forward else f"`{name}`"
        raise ValueError(
            f"{type(module).__name__} has called {NAME} {mode.calls} times in {run}, "
            "instead of once, as when its attention was replaced"
        )
    return result


_BY_MECHANISM = inspect.unwrap(_by_mechanism).__code__


class WithMechanism(nn.Module):
    """A module that attends with its mechanism.

    Attributes:
        original: the class of the module before its attention was replaced.
    """

    original: type[nn.Module]

    def __init_subclass__(cls, **options: Any) -> None:
        """Leave out the method of the original class, which may keep a list of its subclasses."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward pass of the module.

        Raises:
            ValueError: the module did not call the function exactly once, so it may have attended without its
                mechanism, or twice with it; or it checkpoints the call.
        """
        return _by_mechanism(self, "forward", super().forward, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        make, args, *state = reduced
        args = tuple(self.original if one is type(self) else one for one in args)
        return _made, (make, args, getattr(self, PART, None)), *state


@cache
def _with_mechanism(original: Any) -> type[WithMechanism]:
    """A class derived from the original one, with the same name."""
    copied = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    own = {name: inspect.getattr_static(original, name) for name in methods_that_call(original)}
    methods = {
        name: _attending(name, method)
        for name, method in own.items()
        if isinstance(method, FunctionType) and name != "forward" and not name.startswith("__")
    }
    bases = WithMechanism, original
    parts = {**copied, **methods, "original": original}
    kind: type[WithMechanism] = type(original)(original.__name__, bases, parts)
    return kind


def _attending(name: str, method: FunctionType) -> Callable[..., Any]:
    """Wrap a method so that it runs in the mode even when the forward pass does not call it."""

    @wraps(method)
    def attending(self: nn.Module, /, *args: Any, **options: Any) -> Any:
        return _by_mechanism(self, name, method, self, *args, **options)

    return attending


def _made(make: Callable[..., Any], args: tuple[Any, ...], mechanism: Attention | None) -> nn.Module:
    """Make a copy of a module as its original class does; the state is restored afterwards."""
    module: nn.Module = make(*args)
    use_mechanism(module)
    if "_modules" in vars(module) and mechanism is not None:
        setattr(module, PART, mechanism)
    return module
