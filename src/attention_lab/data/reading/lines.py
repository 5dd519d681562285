"""The lines that a codec encodes, one example each."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from attention_lab.errors import LabError, LineError

T = TypeVar("T")


def encode_lines(lines: Sequence[str], first: int, encode: Callable[[str], T]) -> list[T]:
    """Apply `encode` to each line; `first` is the number of the first one.

    Raises:
        LineError: `encode` fails; the error has the line's number.
        LabError: there are no lines.
    """
    if not lines:
        raise LabError("no lines to read; give at least one")
    found = []
    for number, line in enumerate(lines, start=first):
        try:
            found.append(encode(line))
        except LabError as error:
            raise LineError(number, str(error)) from None
    return found
