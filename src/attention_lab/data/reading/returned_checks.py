"""Check what the methods of a data set return: its class may be user-defined."""

from collections.abc import Sequence
from typing import Any, TypeVar

from attention_lab.argument_checks import kind_of
from attention_lab.data.reading.splitting import Splits
from attention_lab.errors import LabError

T = TypeVar("T")


def require(data: object, method: str, returned: object, kind: type[T], wanted: str) -> T:
    """The value that a method of a data set returned. Raises LabError unless it is a `kind`.

    Args:
        data: the data set.
        method: the name of its method.
        returned: the value.
        kind: the class that is expected.
        wanted: its name in the message.
    """
    if isinstance(returned, kind):
        return returned
    raise LabError(f"{type(data).__name__}.{method} must return {wanted}, not {kind_of(returned)}")


def require_lists(data: object, method: str, returned: object, kind: type[T], wanted: str) -> Splits[list[T]]:
    """The lists that a method returned, one for each split; see `require`.

    Raises:
        LabError: they are not lists, or contain anything but objects of this kind.
    """
    lists: Splits[Any] = require(data, method, returned, Splits, f"Splits of lists of {wanted}")
    must = f"{type(data).__name__}.{method} must return Splits of lists of {wanted}, not of"
    for rows in lists:
        if isinstance(rows, str) or not isinstance(rows, Sequence):
            raise LabError(f"{must} {kind_of(rows)}")
        for one in rows:
            if not isinstance(one, kind):
                raise LabError(f"{must} {kind_of(one)}")
    return lists
