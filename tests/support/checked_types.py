"""Types and shapes are checked at every call of our functions, more cheaply than by jaxtyping's decorator."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray
from jaxtyping._storage import pop_shape_memo, push_shape_memo

_JAXTYPED = jaxtyping.jaxtyped


def check_types(modules: list[str]) -> None:
    """From here on, functions of `modules` reject arguments and results of a wrong type or shape.

    For the sake of its messages, jaxtyping's decorator binds the arguments to their names and checks them
    twice, and does so in functions without arrays too: up to two thirds of the time of a test.
    """
    jaxtyping.jaxtyped = functools.partial(
        functools.partial, _checked
    )  # which the import hook puts before every function and class
    jaxtyping.install_import_hook(modules, "beartype.beartype")


def _checked(decorated: Any, typechecker: Any) -> Any:
    if inspect.isclass(decorated):
        if dataclasses.is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = _checked(decorated.__init__, typechecker=typechecker)
        return decorated
    if not inspect.isfunction(decorated) or inspect.isgeneratorfunction(decorated):
        return _JAXTYPED(decorated, typechecker=typechecker)
    shapes = [shape for hint in decorated.__annotations__.values() for shape in _shapes(hint)]
    if any(
        "{" in shape for shape in shapes
    ):  # a size that is an argument: those must be bound to their names
        return _JAXTYPED(decorated, typechecker=typechecker)
    checked = beartype(decorated)
    return _with_own_sizes(checked) if shapes else checked


def _shapes(hint: Any) -> Iterator[str]:
    """The shapes named in a hint, however deep: "B Q K" of `Float[Tensor, "B Q K"] | None`."""
    if isinstance(hint, str):
        if "[Tensor" in hint:
            yield hint
    elif inspect.isclass(hint) and issubclass(hint, AbstractArray):
        yield hint.dim_str
    else:
        for part in get_args(hint):
            yield from _shapes(part)


def _with_own_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, for which "B" is one size in all its arguments and its result, and in no other call's."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        push_shape_memo({})
        try:
            return function(*args, **kwargs)
        finally:
            pop_shape_memo()

    return checked
