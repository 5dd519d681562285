"""Types and shapes are checked at every call of our functions, more cheaply than by jaxtyping's decorator."""

import dataclasses
import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, config

try:
    from jaxtyping._storage import pop_shape_memo, push_shape_memo
except ImportError:  # these are private: another version of jaxtyping checks in its own way
    push_shape_memo = None

_JAXTYPED = jaxtyping.jaxtyped
_CONF = BeartypeConf(violation_type=TypeCheckError)

_calls: Counter[Callable[..., Any]] = Counter()
_most = math.inf


def check_types(modules: list[str]) -> None:
    """From here on, functions of `modules` reject arguments and results of a wrong type or shape.

    For the sake of its messages, jaxtyping's decorator binds the arguments to their names and checks them
    twice, and does so in functions without arrays too: up to two thirds of the time of a test.
    """
    if push_shape_memo is not None:  # the hook puts `jaxtyped` before every function and class
        jaxtyping.jaxtyped = functools.partial(functools.partial, _checked)
    jaxtyping.install_import_hook(modules, "beartype.beartype")


@contextmanager
def first_calls_checked(number: int) -> Iterator[None]:
    """Only so many calls of each function are checked: the later ones of a test are like the first."""
    global _most
    before = _most
    _calls.clear()
    _most = number
    try:
        yield
    finally:
        _most = before


def _checked(decorated: Any, typechecker: Any) -> Any:
    if inspect.isclass(decorated):
        if dataclasses.is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = _checked(decorated.__init__, typechecker=typechecker)
        return decorated
    if not inspect.isfunction(decorated) or inspect.isgeneratorfunction(decorated):
        return _JAXTYPED(decorated, typechecker=typechecker)
    shapes = [shape for hint in decorated.__annotations__.values() for shape in _shapes(hint)]
    if any("{" in shape for shape in shapes):  # a size that is an argument, which must be bound to its name
        return _JAXTYPED(decorated, typechecker=typechecker)
    return _unless_disabled(decorated, beartype(conf=_CONF)(decorated), shaped=bool(shapes))


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


def _unless_disabled(plain: Callable[..., Any], checked: Callable[..., Any], *, shaped: bool) -> Any:
    """`checked`, in which "B" is one size in all arguments and the result of a call, or `plain` on demand."""

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if config.jaxtyping_disable or _calls[plain] >= _most:
            return plain(*args, **kwargs)
        _calls[plain] += 1
        if not shaped:
            return checked(*args, **kwargs)
        push_shape_memo({})
        try:
            return checked(*args, **kwargs)
        finally:
            pop_shape_memo()

    return call
