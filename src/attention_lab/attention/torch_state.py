"""What a computation runs in: a trace, a transform of `torch.func`, autocast, or the backward pass."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from inspect import unwrap
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._C._functorch import TransformType
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.autograd import forward_ad

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def has_values(x: Tensor) -> bool:
    """Whether a branch may depend on the values of a tensor.

    False in compiled code, in a trace (`torch.jit.trace` or `make_fx`), under `vmap`, where one tensor stands
    for many, on the meta device and in PyTorch's `FakeTensorMode`, which compute only shapes.
    """
    if torch.compiler.is_compiling() or _in_trace() or _in_proxies() or under_vmap() or x.is_meta:
        return False
    return not (is_fake(x) if _running() else isinstance(x, FakeTensor))  # `is_fake` sees through wrappers


def under_vmap() -> bool:
    """Whether `torch.func.vmap` is running, under which a branch cannot depend on the values of tensors.

    Always False in compiled code, where this cannot be queried.
    """
    return _running(TransformType.Vmap)


def in_torch_func() -> bool:
    """Whether any transform of `torch.func` is running, which hides the state of autograd outside it.

    Always False in compiled code, where this cannot be queried.
    """
    return _running()


def in_forward_mode() -> bool:
    """Whether forward-mode derivatives are computed, which PyTorch's fused attention does not support."""
    return forward_ad._current_level >= 0


def needs_plain_operations() -> bool:
    """Whether our autograd functions cannot be used.

    True in forward mode, even in compiled code, and in a trace, which could not be saved with them. Also True
    under any other transform of `torch.func`, except in compiled code, where this cannot be queried.
    """
    return in_forward_mode() or _in_trace() or _in_proxies() or _running()


def recomputing() -> bool:
    """Whether the backward pass is running, in which checkpointing calls modules a second time.

    Always False in compiled code, where this cannot be queried.
    """
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def _in_trace() -> bool:
    return not torch.compiler.is_compiling() and torch._C._is_tracing()


def _in_proxies() -> bool:
    """Whether `make_fx` is tracing, as it does for `torch.func.linearize`."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None


def _running(kind: TransformType | None = None) -> bool:
    """Whether a transform of `torch.func` is running, of this kind or of any."""
    if torch.compiler.is_compiling() or not (stack := torch._C._functorch.get_interpreter_stack()):
        return False
    return any(kind in (None, one.key()) for one in stack)


def exporting() -> bool:
    """Whether code is exported with `torch.export`, for inputs of any size, and not merely compiled.

    In some versions, such as PyTorch 2.11, `torch.compiler.is_exporting` is also True in compiled code.
    """
    return torch.compiler._is_exporting_flag


def between_graphs(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate a function that compiled code calls as it is, because a graph would break inside it.

    Unlike the decorator `torch.compiler.disable`, it does not import PyTorch's compiler beforehand.
    """

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        uncompiled: Callable[_Given, _Result] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return uncompiled(*args, **kwargs)

    return call


def not_compiled_alone(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate the `__torch_function__` of a mode: it can be part of a graph, but not a graph of its own.

    Where a graph breaks in compiled code, some of the model runs uncompiled, and the compiler would compile
    what that calls. It would not see whether the mode is called for `x.shape` or for `x.device`, and give the
    value of the first to both.
    """
    alone = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    set_code_exec_strategy(unwrap(function).__code__, alone)
    return function


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """What autocast casts to on the device of `x`; None if it is off."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else None


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype of `x` in a matrix product: autocast leaves float64 and integers as they are."""
    return x.dtype if x.dtype == torch.float64 or not x.is_floating_point() else autocast_dtype(x) or x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which nothing is cast to half precision on the device of `x`."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def uncached_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """The current autocast on the device of `x`, but without its cache.

    A parameter whose cast was cached under `no_grad` would get no gradient where it is used again.
    """
    kind = x.device.type
    if kind == "meta":
        return nullcontext()
    return torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=False)
