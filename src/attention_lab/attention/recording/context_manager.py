"""`recording`: look at the attention of a model while it runs as usual."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import update_wrapper, wraps
from threading import RLock
from types import MethodType
from typing import Any

import torch
from torch import nn

from attention_lab.attention.attention import Attention
from attention_lab.attention.recorder import Chosen, Recorder, Selection, indices
from attention_lab.attention.recording.flex import watched_flex_attention
from attention_lab.attention.recording.libraries.hugging_face import watched_interface
from attention_lab.attention.recording.libraries.torch_modules import (
    Forward,
    Wrap,
    inherited_forwards,
    torch_forwards,
)
from attention_lab.attention.recording.libraries.x_transformers import x_transformers_forwards
from attention_lab.attention.recording.missed_attention import missed_attention_named
from attention_lab.attention.recording.recording_mode import RecordingMode
from attention_lab.attention.recording.results import Recording
from attention_lab.attention.recording.session import Session
from attention_lab.attention.recording.unobserved import compiled_method, unobserved

_changing = RLock()
"""Held while a recording changes a module, which another thread may record, too."""
_originals: dict[type[nn.Module], Forward] = {}  # of the classes whose `forward` is replaced
_wraps: dict[tuple[type[nn.Module], int], list[Wrap]] = {}  # by such a class and the module to record


@contextmanager
def recording(
    model: nn.Module,
    examples: Chosen = None,
    *,
    names: Collection[str] | None = None,
    heads: Chosen = None,
    queries: Chosen = None,
) -> Iterator[Recording]:
    """Record the weights of all attentions in any model.

    For example:

        with recording(model) as weights:
            model(batch)
        weights["encoder.layers.0.attention"]  # [B, H, Q, K]

    The model computes the same results by the same paths: outputs, gradients and random numbers do not change
    by a single bit. The recording covers our own `Attention`, torch's `scaled_dot_product_attention`,
    `flex_attention`, `nn.MultiheadAttention` and `nn.TransformerEncoder`, the attention interfaces of
    transformers, x-transformers, and hand-written attention (a softmax, or another normaliser, multiplied by
    the values), each under the name of the module that calls it. Where a kernel does not form the weights,
    they are computed separately from its queries, keys, masks, biases and sinks, in blocks of rows, without
    gradient. A warning names any kernel that hides its weights, modules with a softmax over the edges of a
    graph, and modules whose class is named after attention but of which nothing could be recorded. Outside
    the `with` block nothing is computed or stored.

    Args:
        model: the model that runs inside the block.
        examples: the examples of each batch to record, in this order: an index, a slice or several indices;
            None for all. Weights of other examples are neither computed nor stored.
        names: names of the modules to record, with all attentions inside them; None for all.
        heads: the heads to record, given like `examples`.
        queries: the queries to record, given like `examples`. They are counted over all calls of an
            attention, such as the steps of a generation; negative ones count from the end of each call.

    Raises:
        TypeError: the model is not a module, an index is not a number, or the names are not a list of names.
        ValueError: a choice of examples, names, heads or queries is empty.
        KeyError: the model has no module of that name.
        IndexError: when the model runs, if a batch is too small for an index or there are fewer heads; when
            the block ends, if no attention had so many queries.
    """
    check_module(model)
    choices = {"examples": examples, "heads": heads, "queries": queries}
    selection = Selection(**{option: indices(choice, option) for option, choice in choices.items()})
    session = Session(model, selection, names)
    mode = RecordingMode(session)
    with ExitStack() as stack:
        with _changing:
            for attention, recorder in session.attentions():
                stack.enter_context(_recorder(attention, recorder))
            for module, method, replacement in [
                *torch_forwards(session, mode),
                *x_transformers_forwards(session),
                *_compiled(session),
            ]:
                stack.enter_context(_replaced(module, method, replacement))
            for base, module, wrap in inherited_forwards(session):
                stack.enter_context(_super_forward(base, module, wrap))
        stack.enter_context(missed_attention_named(session))
        stack.enter_context(watched_interface(session))
        stack.enter_context(watched_flex_attention(session))
        _warn_of_scripts(session)
        stack.enter_context(mode)
        yield session.result
    session.check_queries()


def check_module(model: object) -> None:
    """Raise TypeError if a model is not a module; the error points to the module in `.model`, if any."""
    if not isinstance(model, nn.Module):
        inside = "; record its .model" if isinstance(getattr(model, "model", None), nn.Module) else ""
        raise TypeError(f"recording(model) takes a torch.nn.Module, not {type(model).__name__}{inside}")


@contextmanager
def _recorder(attention: Any, recorder: Recorder) -> Iterator[None]:
    """Let one of our own attentions pass its weights to its recorder."""
    assert isinstance(attention, Attention)
    recorder.outer, attention.record = attention.record, recorder
    try:
        yield
    finally:
        with _changing:
            if attention.record is recorder:
                attention.record = recorder.outer
            elif attention.record is not None:  # a recording that began later has not ended yet
                attention.record.forget(recorder)


@contextmanager
def _replaced(module: nn.Module, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Replace a method of one module inside the `with` block."""
    entry = _Replacement(module, name, replacement)
    module.__dict__[name] = entry
    try:
        yield
    finally:
        with _changing:
            entry.call = entry.method  # a recording that began later may still call it
            last = module.__dict__.get(name)
            while isinstance(last, _Replacement) and last.call is last.method:
                last = last.own
            if last is None:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = last


class _Replacement:
    """Replaces a method of a module during a recording; a copy of the module gets its own method back.

    Args:
        module: the module.
        name: the name of the method.
        call: what is called in its place.
    """

    def __init__(self, module: nn.Module, name: str, call: Callable[..., Any]) -> None:
        method = getattr(module, name)
        update_wrapper(self, method)  # `method` may itself be a replacement, whose attributes are kept
        self.module, self.name, self.method, self.call = module, name, method, call
        self.own = module.__dict__.get(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The recorded call."""
        return self.call(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _method, (self.module, self.name, self.own)


def _method(module: nn.Module, name: str, own: Any) -> Any:
    """The method that a module had before it was recorded: one of its own, or that of its class."""
    return MethodType(getattr(type(module), name), module) if own is None else own


@contextmanager
def _super_forward(base: type[nn.Module], module: nn.Module, wrap: Wrap) -> Iterator[None]:
    """Let a module run a recorded method where it calls `super().forward(...)` of this class.

    An object cannot replace what `super()` finds, so the method of the class is replaced. For all other
    objects it is the original.
    """
    key = base, id(module)
    with _changing:
        if base not in _originals:
            _originals[base] = base.forward
            base.forward = _dispatching(base, base.forward)
        _wraps.setdefault(key, []).append(wrap)
    try:
        yield
    finally:
        with _changing:
            _wraps[key].remove(wrap)
            if not _wraps[key]:
                del _wraps[key]
            if not any(one is base for one, _ in _wraps):
                base.forward = _originals.pop(base)


def _dispatching(base: type[nn.Module], original: Forward) -> Forward:
    """A method that runs the recorded ones of its object, if there are any."""

    @wraps(original)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        method: Forward = MethodType(original, self)
        if torch.compiler.is_compiling():
            return method(*args, **kwargs)
        for wrap in [*_wraps.get((base, id(self)), ())]:
            method = wrap(method)
        return method(*args, **kwargs)

    return forward


def _warn_of_scripts(session: Session) -> None:
    """Warn about parts of the model made by torch.jit, whose functions cannot be observed."""
    for name, module in session.modules():
        if isinstance(module, torch.jit.ScriptModule) and session.wants(name):
            session.warn(name, "a scripted or traced module", "record the model before torch.jit")


def _compiled(session: Session) -> list[tuple[nn.Module, str, Callable[..., Any]]]:
    """Replacements for the methods of compiled modules, which run unobserved and warn about it."""
    return [
        (module, method, _unobserved(session, name, getattr(module, method)))
        for name, module in session.modules()
        if (method := compiled_method(module)) is not None
    ]


def _unobserved(session: Session, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs unobserved."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if session.wants(name):
            uncompiled = 'record it before torch.compile, or in torch.compiler.set_stance("force_eager")'
            session.warn(name, "a compiled graph", uncompiled)
        with unobserved():
            return method(*args, **kwargs)

    return call
