"""Checks of options and arguments that several subpackages share."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from attention_lab.errors import LabError

LARGEST_SEED = 2**32 - 1
"""The largest seed that NumPy accepts."""
_TYPES: Mapping[Any, Sequence[str]] = {
    int: ("a whole number",),
    float: ("a number",),
    str: ("text",),
    list: ("a list",),
    tuple: ("a list",),
    Sequence: ("a list",),
    bool: ("true", "false"),
    NoneType: ("null",),
}
"""What an error calls the types of plain values."""
_ACCEPTED = {(float, int), (tuple, list), (Sequence, list), (Mapping, dict)}
"""Annotations and other types of plain values that they also mean."""


def check_number(
    name: str, number: object, *, least: int | None = None, above: int | None = None, whole: bool = False
) -> None:
    """Raise LabError if an argument is not a number, or not in range; NaN is in no range.

    Args:
        name: what the message calls it.
        number: the argument.
        least: the smallest number allowed.
        above: the number must be larger than this.
        whole: it must be a whole number.
    """
    if isinstance(number, bool) or not isinstance(number, Integral if whole else Real):
        raise LabError(f"{name} must be a {'whole ' * whole}number, not {number!r}")
    value = float(number)
    if least is not None and not value >= least:
        raise LabError(f"{name} must be at least {least}, got {number}")
    if above is not None and not value > above:
        raise LabError(f"{name} must be above {above}, got {number}")


def check_counts(part: str, least: int, **options: object) -> None:
    """Raise LabError if an option of a part, such as `model`, is not a whole number of at least `least`."""
    for name, number in options.items():
        check_number(f"{part}.{name}", number, least=least, whole=True)


def check_heads(**numbers: int | None) -> None:
    """Raise LabError for numbers below 1, and unless each is a multiple of the next.

    Args:
        numbers: by their names, the size of the model, the heads, and those of keys and values, or None.
    """
    given = [(name, number) for name, number in numbers.items() if number is not None]
    for name, number in given:
        check_number(name, number, least=1, whole=True)
    for (name, number), (divisor_name, divisor) in pairwise(given):
        if number % divisor:
            raise LabError(f"{name}={number} must be a multiple of {divisor_name}={divisor}")


def kind_of(argument: object) -> str:
    """What an argument is, for an error: `the class Additive`, `a Tensor` or `an int`."""
    if isinstance(argument, type):
        return f"the class {argument.__name__}"
    kind = type(argument).__name__
    return f"{'an' if kind[0].lower() in 'aeio' else 'a'} {kind}"


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself; of lists and their like without the elements."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return tuple(kind if get_origin(kind) is Literal else get_origin(kind) or kind for kind in kinds)


def allowed_types(value: object, annotation: Any) -> str:
    """What an annotation allows, in words, if a plain value does not fit it; empty if it fits.

    The elements of lists are not checked.
    """
    kinds = alternatives(annotation)
    words: list[str] = []
    for kind in kinds:
        literals = get_args(kind)
        if value in literals or type(value) is kind or (kind, type(value)) in _ACCEPTED:
            return ""
        if kind is not int or float not in kinds:
            words += map(str, literals or _TYPES.get(kind, ()))
    *first, last = dict.fromkeys(words or [""])
    return f"{', '.join(first)} or {last}" if first else last
