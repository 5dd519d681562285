"""Whether values read from a file have the types that a class declares."""

from dataclasses import fields, is_dataclass
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from attention_lab.data.reading.files import LARGEST_FLOAT
from attention_lab.data.reading.vocabulary import LONGEST_SYMBOL
from attention_lab.files.regular_files import is_utf8


def fits(value: object, hint: Any) -> bool:
    """Whether a value matches an annotation: plain values, lists and dataclasses, with finite numbers.

    Integers are counts, so they must be from 0 to 2^31 - 1. Texts must be UTF-8, and those in lists must not
    be long, because they are names and symbols.
    """
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return isinstance(value, cast(type, hint)) and all(
            fits(getattr(value, field.name), hints[field.name]) for field in fields(hint)
        )
    origin, options = get_origin(hint), get_args(hint)
    if origin is list:
        return type(value) is list and all(fits(item, options[0]) and not _is_long(item) for item in value)
    if origin is tuple and options[-1] is Ellipsis:
        return type(value) is tuple and all(fits(item, options[0]) for item in value)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(options) and all(map(fits, value, options))
    if origin is Literal:
        return type(value) is str and value in options
    if options:
        return any(fits(value, option) for option in options)
    if hint is float:
        return type(value) in (int, float) and abs(cast(float, value)) < LARGEST_FLOAT
    if type(value) is str and not is_utf8(value):
        return False
    return type(value) is hint and (hint is not int or 0 <= cast(int, value) < 2**31)


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LONGEST_SYMBOL
