"""Checks of options and arguments that several subpackages share."""

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attention_lab.errors import LabError

LARGEST_SEED = 2**32 - 1
"""The largest seed that NumPy accepts."""
_LISTS = (list, tuple, Sequence, Iterable)
_TYPES: Mapping[Any, Sequence[str]] = {
    int: ("a whole number",),
    float: ("a number",),
    str: ("text",),
    bool: ("true", "false"),
    NoneType: ("null",),
    **dict.fromkeys(_LISTS, ("a list",)),
    **dict.fromkeys((dict, Mapping), ("a mapping",)),
}
"""The names of plain types in error messages."""


def check_number(
    name: str, number: object, *, least: int | None = None, above: int | None = None, whole: bool = False
) -> None:
    """Raise LabError if an argument is not a number or is out of range; NaN is rejected, too.

    Args:
        name: the name of the argument in the message.
        number: the argument.
        least: the smallest number allowed.
        above: the number must be larger than this.
        whole: it must be a whole number.
    """
    if isinstance(number, bool) or not isinstance(number, Integral if whole else Real):
        given = kind_of(number) if getattr(number, "ndim", 0) else repr(number)  # an array is too long
        raise LabError(f"{name} must be a {'whole ' * whole}number, not {given}")
    value = float(number)
    if math.isnan(value) and least is above is None:
        raise LabError(f"{name} must be a number, not nan")
    if least is not None and not value >= least:
        raise LabError(f"{name} must be at least {least}, got {number}")
    if above is not None and not value > above:
        raise LabError(f"{name} must be above {above}, got {number}")


def check_counts(part: str, least: int, **options: object) -> None:
    """Raise LabError if an option of a part, such as `model`, is not a whole number of at least `least`."""
    for name, number in options.items():
        check_number(f"{part}.{name}", number, least=least, whole=True)


def check_heads(**numbers: int | None) -> None:
    """Raise LabError unless every number is at least 1 and a multiple of the next.

    Args:
        numbers: by name, the size of the model, its heads and its key-value heads; None if not set.
    """
    given = [(name, number) for name, number in numbers.items() if number is not None]
    for name, number in given:
        check_number(name, number, least=1, whole=True)
    for (name, number), (divisor_name, divisor) in pairwise(given):
        if number % divisor:
            raise LabError(f"{name}={number} must be a multiple of {divisor_name}={divisor}")


def kind_of(argument: object) -> str:
    """Describe an argument in an error message: `the class Additive`, `a Tensor` or `an int`."""
    if isinstance(argument, type):
        return f"the class {argument.__name__}"
    kind = type(argument).__name__
    return f"{'an' if kind[0].lower() in 'aeio' else 'a'} {kind}"


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def allowed_types(value: object, annotation: Any) -> str:
    """Say in words what an annotation allows if a plain value does not fit it; empty if it fits.

    In a union with plain types, any other type stands for an object, given as a mapping with its class as
    `_target_`. If there are no plain types, or only None, any value fits.
    """
    words = "" if any(_fits(value, kind) for kind in alternatives(annotation)) else _in_words(annotation)
    return "" if words == "null" else words


def _fits(value: object, kind: Any) -> bool:
    """Whether a plain value fits a type that is not a union."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return value in get_args(kind)
    if origin in _LISTS:
        return isinstance(value, list) and not any(allowed_types(one, _elements(kind)) for one in value)
    if origin in (int, float, str, bool, NoneType):
        return type(value) is origin or (origin is float and type(value) is int)
    return isinstance(value, Mapping) and (origin in (dict, Mapping) or "_target_" in value)


def _elements(kind: Any) -> Any:
    """The annotation of a list's elements; for a tuple, the union of its annotations."""
    return Union[tuple(one for one in get_args(kind) if one is not Ellipsis) or Any]  # noqa: UP007


def _in_words(annotation: Any, plural: bool = False) -> str:
    """The plain types that an annotation allows, in words; empty if it has none."""
    kinds, words = alternatives(annotation), list[str]()
    for kind in kinds:
        origin = get_origin(kind) or kind
        if origin is int and float in kinds:
            continue
        found = map(str, get_args(kind)) if origin is Literal else _TYPES.get(origin, ())
        words += [f"{one.removeprefix('a ')}s" if plural and one.startswith("a ") else one for one in found]
        if origin in _LISTS and (elements := _in_words(_elements(kind), plural=True)):
            words[-1] += f" of {elements}"
    *first, last = dict.fromkeys(words or [""])
    return f"{', '.join(first)} or {last}" if first else last


def option_types(made: Any) -> dict[str, Any]:
    """The annotations of the options of a class or function, including those it passes on to base classes.

    An option without an annotation has `Parameter.empty`, which any value fits.

    Raises:
        ValueError: it has no signature, like some classes written in C.
    """
    methods = [vars(kind).get("__init__") for kind in made.__mro__] if isinstance(made, type) else []
    inits = list(filter(inspect.isfunction, methods))
    found: dict[str, Any] = {}
    for function in inits or [made]:
        parameters = list(inspect.signature(function).parameters.values())[bool(inits) :]
        try:
            types = get_type_hints(function)
        except (NameError, TypeError):  # a type is imported only for the type checker
            types = {}
        # Options that come from a dataclass (`options_of`) are annotated only in the signature.
        named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        found = {one.name: types.get(one.name, one.annotation) for one in named} | found
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    return found


def wrong_types(made: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """For each option whose value has the wrong type, say in words what it must be.

    Args:
        made: the class or function that takes the options.
        options: their values, by name.
    """
    known = option_types(made)
    return {
        name: allowed
        for name, value in options.items()
        if name in known and (allowed := allowed_types(value, known[name]))
    }
