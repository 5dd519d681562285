"""Check the parts that are given to an attention or a mechanism, and the module that `from_torch` copies."""

from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from attention_lab.argument_checks import kind_of
from attention_lab.attention.scores import Score

_TORCH_PARAMETERS = {
    *("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
    *("bias_k", "bias_v", "out_proj.weight", "out_proj.bias"),
}
_KINDS = {
    "attention_lab.attention.normalizers": "normalizer",
    "attention_lab.attention.pooling": "pooling",
    "attention_lab.attention.windows": "window",
}
"""The kinds of parts, by the module that defines their classes."""
_ARGUMENTS = {
    "normalizer": ("scores", "mask"),
    "pooling": ("weights", "value"),
    "window": ("query", "keys", "visible", "offset"),
}
"""The positional arguments with which each kind of part is called."""


def check_parts(score: object, **others: object) -> None:
    """Raise TypeError if the score is not a `Score` or incomplete, or another part cannot be called."""
    for name, part in {"score": score, **others}.items():
        kind = part.func if isinstance(part, partial) else part
        if isinstance(kind, type):
            given = "a class" if kind is part else "a partial, which Mechanism takes"
            raise TypeError(f"Attention({name}=...) takes an instance, not {given}: {_called(kind)}")
        if part is not None and not callable(part):
            raise TypeError(f"Attention({name}=...) takes a module, not {kind_of(part)}")
        _check_kind("Attention", name, type(part))
        if part is not None and name in _ARGUMENTS:
            _check_arguments(name, part)
    if hasattr(score, "_orig_mod"):  # what torch.compile returns
        kind = type(score._orig_mod).__name__
        raise TypeError(
            f"Attention(score) takes a Score, not a compiled one: compile the attention, or the model around "
            f"it, such as torch.compile(Attention({kind}(...)))"
        )
    if not isinstance(score, Score):
        raise TypeError(
            f"Attention(score) takes a Score, not {kind_of(score)}: define class MyScore(Score) with "
            "forward(query, keys)"
        )
    if "query_size" not in vars(score):
        raise TypeError(
            f"{type(score).__name__}.__init__ must call super().__init__(query_size, key_size, heads)"
        )


def check_window_size(window: object, score: Score) -> None:
    """Raise ValueError if a window is for queries of a different size, as in `Band(3)` for a width of 3."""
    made_for = getattr(window, "query_size", score.query_size)
    if made_for != score.query_size:
        name = type(window).__name__
        raise ValueError(
            f"the window was made for queries of size {made_for}, the score for {score.query_size}: write "
            f"{name}({score.query_size}, ...) and give the width by its name"
        )


def check_makers(**makers: object) -> None:
    """Raise TypeError if a part of a mechanism is not the class or function that makes it."""
    for name, maker in makers.items():
        if isinstance(maker, nn.Module) or not callable(maker):
            kind = type(maker).__name__
            like = kind if isinstance(maker, nn.Module) else "MyPart"
            raise TypeError(
                f"Mechanism({name}=...) takes a class such as {like}, or partial({like}, option=...), which "
                f"makes the part for any sizes, not {kind_of(maker)}"
            )
        made = maker.func if isinstance(maker, partial) else maker
        if isinstance(made, type):
            _check_kind("Mechanism", name, made)


def kind_of_part(kind: type) -> str | None:
    """The kind of part that a class is, such as `score`; None if it has no base in this package."""
    kinds = [_KINDS[one.__module__] for one in kind.__mro__ if one.__module__ in _KINDS]
    return "score" if issubclass(kind, Score) else next(iter(kinds), None)


def _check_kind(call: str, name: str, kind: type) -> None:
    """Raise TypeError if a class is, or derives from, another kind of part, such as a window."""
    meant = kind_of_part(kind) or name
    if meant != name:
        raise TypeError(f"{call}({name}=...): {kind.__name__} is a {meant}: write {meant}=...")


def _check_arguments(name: str, part: Any) -> None:
    """Raise TypeError if an attention cannot call a part with its arguments, such as torch's softmax."""
    if isinstance(part, nn.Module) and part._forward_pre_hooks:  # they may change the arguments
        return
    plain = isinstance(part, nn.Module) and type(part).__call__ is nn.Module.__call__
    wanted, called = _ARGUMENTS[name], part.forward if plain else part
    try:
        # A decorated function may take other arguments than the one that it wraps.
        signature(called, follow_wrapped=False).bind(*wanted)
        fits = called is not F.softmax  # its second argument is a dimension
    except TypeError:
        fits = False
    except ValueError:  # a function written in C
        fits = called is not torch.softmax
    if not fits:
        kind = part if hasattr(part, "__name__") else type(part)
        like = {"normalizer": "Softmax()", "pooling": "Soft()", "window": "Global(query_size)"}[name]
        raise TypeError(
            f"Attention({name}=...): {kind.__name__} of {kind.__module__ or 'torch'} does not take "
            f"({', '.join(wanted)}): use a class of attention_lab.attention, such as {like}, or your own"
        )


def check_torch_module(module: object) -> None:
    """Raise TypeError if a module is not `torch.nn.MultiheadAttention`, or has additional parameters."""
    if not isinstance(module, nn.MultiheadAttention):
        given = f"{kind_of(module)} of {type(module).__module__}"
        raise TypeError(f"from_torch takes a torch.nn.MultiheadAttention, not {given}")
    for name in module.state_dict():
        if name not in _TORCH_PARAMETERS and not name.startswith("attention."):  # our own score
            raise TypeError(
                f"from_torch cannot copy {name}: remove parametrizations, pruning and adapters from the "
                "module first, and add them to the copy"
            )


def _called(kind: type) -> str:
    options = "query_size=64, key_size=64" if issubclass(kind, Score) else "..."
    return f"write {kind.__name__}({options})"
