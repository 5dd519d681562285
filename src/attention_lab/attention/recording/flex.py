"""`flex_attention` (2412.05496), called directly or compiled.

No mode sees calls of this function, and programs hold references to it, compiled or not. While a model is
recorded, the function's code is therefore replaced by a call of the recorder, which runs the original code.
torch stores compiled programs with the original code, so they are reused and nothing is compiled again.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, no_type_check

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_lab.attention.recording.fused import autocast
from attention_lab.attention.recording.libraries.hugging_face import running_interface_call
from attention_lab.attention.recording.observers import Observers
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.unobserved import set_modes, unobserved, without_recordings
from attention_lab.attention.recording.weights import KernelCall, Modify

_HOME = "torch.nn.attention.flex_attention"
_observers = Observers()
_original: list["_Original"] = []


class _Original(NamedTuple):
    """The original function, and the steps around a call of it that are never compiled."""

    function: Any
    enter: Callable[[], list[TorchFunctionMode]]
    leave: Callable[[list[TorchFunctionMode]], None]
    record: Callable[[tuple[Any, ...], dict[str, Any]], None]


@no_type_check  # no runtime type checks around code that torch compiles
def _stub(*args: Any, **kwargs: Any) -> Any:
    from attention_lab.attention.recording.flex import call_and_record

    return call_and_record(*args, **kwargs)


@no_type_check
def call_and_record(*args: Any, **kwargs: Any) -> Any:
    """Call `flex_attention` and add the call to the recordings of this thread."""
    original = _original[-1]
    if torch.compiler.is_compiling():
        return original.function(*args, **kwargs)
    modes = original.enter()
    try:
        result = original.function(*args, **kwargs)
    finally:
        original.leave(modes)
    original.record(args, kwargs)
    return result


def _record(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record a call in the recordings of this thread."""
    for session in _observers.here:
        site = session.site()
        if site is not None:
            call, interface = flex_call(*args, **kwargs), running_interface_call()
            session.record_call(site, call if interface is None else replace(call, sinks=interface.sinks))


@contextmanager
def watched_flex_attention(session: Session) -> Iterator[None]:
    """Observe the calls of `flex_attention`, if it has been imported."""
    home = sys.modules.get(_HOME)
    if home is None:
        yield
        return
    function = home.flex_attention
    with _observers.including(session, partial(_replace, function), partial(_restore, function)):
        yield


def _replace(function: FunctionType) -> None:
    """Replace the code of a function by a call of the recorder."""
    from torch._dynamo import disable
    from torch._dynamo.decorators import skip

    original = FunctionType(function.__code__, function.__globals__, function.__name__)
    original.__defaults__, original.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    for one in (_stub, call_and_record):
        skip(one)  # not compiled themselves, where a compiled program calls them
    parts = (disable(one) for one in (without_recordings, set_modes, _record))  # type: ignore[no-untyped-call]
    _original.append(_Original(original, *parts))
    function.__code__, function.__defaults__, function.__kwdefaults__ = _stub.__code__, None, None


def _restore(function: FunctionType) -> None:
    original = _original.pop().function
    function.__code__, function.__defaults__ = original.__code__, original.__defaults__
    function.__kwdefaults__ = original.__kwdefaults__


def flex_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    *others: Any,
    **options: Any,
) -> KernelCall:
    """Describe the computation that `flex_attention` was asked for."""
    query, key = autocast(query.detach()), autocast(key.detach())
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask_mod = None if block_mask is None else block_mask.mask_mod
    key = key.expand(len(query), *key.shape[1:])
    modify = None if score_mod is None and mask_mod is None else _modify(score_mod, mask_mod)
    return KernelCall(query, key, scale, modify=modify)


def _modify(score_mod: Callable[..., Tensor] | None, mask_mod: Callable[..., Tensor] | None) -> Modify:
    """Apply both functions to blocks of scores; they are written for a single score and its indices."""

    def modify(
        scores: Tensor, examples: Tensor, heads: Tensor, queries: Tensor, keys: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The modified scores of these cells, and which of them the mask leaves visible."""
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        index = examples, heads, queries, keys
        visible = None
        # DisableTorchFunction would also turn off the mode that allows a tensor as an index.
        with torch._C._EnableTorchFunction(), unobserved(), TransformGetItemToIndex():
            if score_mod is not None:
                scores = _of_all(score_mod, (0,))(scores, *index)
            if mask_mod is not None:
                visible = _of_all(mask_mod, ())(*index).expand(scores.shape)
        return scores, visible

    return modify


def _of_all(function: Callable[..., Tensor], scores: tuple[int, ...]) -> Callable[..., Tensor]:
    """Vectorise a function of one score (or none) and four indices."""
    for place in reversed(range(4)):
        dims = tuple(0 if one == place else None for one in range(4))
        function = torch.vmap(function, in_dims=(*scores, *dims))
    return function
