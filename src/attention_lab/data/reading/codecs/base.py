"""The base class of codecs, and how they encode lines and are stored in checkpoints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args, get_type_hints

import numpy as np
from torch import Tensor

from attention_lab.console_text import LONGEST_MESSAGE, printable
from attention_lab.data.plain_values import fits
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.errors import LabError, LineError

T = TypeVar("T")


@dataclass(frozen=True)
class BaseCodec:
    """A codec whose fields are tokenizers and plain values."""

    KIND: ClassVar[str]
    """The name of the class in a state."""

    def state(self) -> dict[str, Any]:
        """Plain values from which `from_state` rebuilds the codec."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: one.state() if isinstance(one, Tokenizer) else one for name, one in values.items()}
        return {"kind": self.KIND, **plain}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The codec with this `state`; for one from a file, call `codec_from_state`, which checks it."""
        kept = {name: value for name, value in state.items() if name != "kind"}
        tokenizers = {name: Tokenizer.from_state(one) for name, one in kept.items() if isinstance(one, dict)}
        return cls(**kept | tokenizers)

    def as_line(self, given: object) -> str:
        """An input as the line of text that `encode` reads. Raises LabError if it is not a text."""
        if not isinstance(given, str):
            raise LabError(f"is of the type {type(given).__name__}, not a text, such as 'attention'")
        return given

    def problem(self) -> str:
        """Describe values that have the right types but do not fit together; empty if all fit."""
        return ""


def check_codec(codec: BaseCodec, name: str) -> None:
    """Raise LabError if the values of a codec have other types than declared, or do not fit together.

    Args:
        codec: the codec.
        name: the name of the codec in the message.
    """
    hints = get_type_hints(type(codec))
    for field in fields(codec):
        hint = hints[field.name]
        if not fits(getattr(codec, field.name), hint):
            kind = hint if get_args(hint) else getattr(hint, "__name__", hint)
            raise LabError(f"{name} of the kind {codec.KIND!r} has invalid values of {field.name} ({kind})")
    if problem := codec.problem():
        raise LabError(f"{name} {problem}")


def path_line(given: object) -> str:
    """The path of an image, a text or a `Path`, as a line. Raises LabError if it is anything else."""
    if not isinstance(given, str | Path):
        raise LabError(f"is of the type {type(given).__name__}, not the path of an image")
    return str(given)


def numbers_line(given: object, between: str = " ") -> str:
    """An array [d], or rows [L, d], as a line of the same numbers; a text remains as it is.

    Args:
        given: the array, tensor, list or text.
        between: what separates rows.

    Raises:
        LabError: it is anything else.
    """
    if isinstance(given, str):
        return given
    try:
        values: Any = given
        if isinstance(given, Tensor):
            values = (given if given.is_complex() else given.double()).detach().cpu().numpy()
        if values is None or np.iscomplexobj(values):  # numpy would accept NaN and drop imaginary parts
            raise TypeError
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise LabError(f"is of the type {type(given).__name__}, not a text or an array of numbers") from None
    if array.ndim > 2:
        raise LabError(f"is an array of {array.ndim} dimensions, not [d] or [L, d]")
    return between.join(" ".join(map(str, row)) for row in np.atleast_2d(array).tolist())


def encode_lines(lines: Sequence[str], first: int, encode: Callable[[str], T]) -> list[T]:
    """Apply `encode` to each line; `first` is the number of the first one.

    Raises:
        LineError: `encode` fails; the error has the line's number, and no characters that control a terminal.
        LabError: there are no lines.
    """
    if not lines:
        raise LabError("no lines to read; give at least one")
    found = []
    for number, line in enumerate(lines, start=first):
        try:
            found.append(encode(line))
        except LabError as error:
            raise LineError(number, printable(str(error), LONGEST_MESSAGE)) from None
    return found
