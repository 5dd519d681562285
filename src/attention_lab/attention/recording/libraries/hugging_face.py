"""The attention interface of transformers; observed only if transformers has been imported."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.attention.recording.fused import autocast
from attention_lab.attention.recording.observers import Observers
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.unobserved import unobserved
from attention_lab.attention.recording.weights import KernelCall

TRANSFORMERS = "transformers.modeling_utils"
"""The module of transformers that has its attention interface and the base class of its models."""
REMEDY = "load the model with attn_implementation='sdpa' or 'eager'"


@dataclass(frozen=True)
class InterfaceCall:
    """A call of the attention interface by a transformers model.

    Attributes:
        query: the queries `[B, H, Q, d]`, before the interface rearranges them.
        sinks: `[H]`, scores of keys without a value.
    """

    query: Tensor
    sinks: Tensor | None


_running = threading.local()
_observers = Observers()
_original: list[Any] = []


def running_interface_call() -> InterfaceCall | None:
    """The call of an attention interface that is currently running in this thread."""
    return getattr(_running, "call", None)


@contextmanager
def watched_interface(session: Session) -> Iterator[None]:
    """Observe the calls of the attention interface of transformers, in this thread."""
    home = sys.modules.get(TRANSFORMERS)
    interface = getattr(home, "AttentionInterface", None)
    name = "get_interface" if hasattr(interface, "get_interface") else "__getitem__"
    if interface is None or not hasattr(interface, name):
        yield
        return
    with _observers.including(
        session, partial(_replace, interface, name), partial(_restore, interface, name)
    ):
        yield


def _replace(interface: type, name: str) -> None:
    """Replace the method that looks up an attention function."""
    _original.append(vars(interface).get(name))
    setattr(interface, name, _watched_method(getattr(interface, name)))


def _restore(interface: type, name: str) -> None:
    own = _original.pop()
    if own is None:
        delattr(interface, name)
    else:
        setattr(interface, name, own)


def _watched_method(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that looks up an attention function, for all recordings of the thread that calls it."""

    def watched(mapping: Any, implementation: str, *default: Any) -> Callable[..., Any]:
        function: Callable[..., Any] = original(mapping, implementation, *default)
        if torch.compiler.is_compiling():  # the model is named as compiled
            return function
        for session in _observers.here:
            function = _watched(session, implementation, function)
        return function

    return watched


def _watched(session: Session, implementation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An attention function whose calls are recorded."""
    flash = (implementation or "").removeprefix("paged|").startswith("flash")

    def call(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Run the function, and record its call if nothing inside did so."""
        calls, before = session.calls, running_interface_call()
        _running.call = InterfaceCall(query, kwargs.get("s_aux"))
        try:
            if flash:
                with unobserved():
                    result = function(module, query, key, value, *args, **kwargs)
            else:
                result = function(module, query, key, value, *args, **kwargs)
        finally:
            _running.call = before
        site = session.site_of(session.name_of(module), module)
        if site is not None and session.calls == calls:
            if flash and kwargs.get("cache") is None and kwargs.get("cu_seq_lens_q") is None:
                session.record_call(site, flash_call(module, query, key, *args, **kwargs))
            else:
                session.warn(site.name, f"the attention interface {implementation!r}", REMEDY)
        return result

    return call


def flash_call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> KernelCall:
    """A `KernelCall` from a call of transformers' flash attention; causal order counts from the last key."""
    query, key = autocast(query.detach()), autocast(key.detach())
    keys, queries = key.shape[2], query.shape[2]
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    mask = None
    if attention_mask is not None:
        mask = attention_mask.bool()
        mask = mask[:, -keys:][:, None, None, :] if mask.dim() == 2 else mask
    return KernelCall(
        query,
        key,
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        mask,
        causal,
        keys - queries,
        sliding_window,
        softcap,
        s_aux,
    )
