"""The inputs that a user gives a trained model: check them, and convert them to lines or symbols."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from attention_lab.data.reading.codecs import ClassificationCodec, Codec, LanguageCodec, TransductionCodec
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.errors import LabError, LineError

_SHOWN = 60
"""The largest number of characters of an input that an error message repeats."""
_LISTED = 12
"""The largest number of symbols in a list for people."""


def reads_columns(codec: Codec) -> bool:
    """Whether an input has columns separated by tabs: `lemma<TAB>tags`."""
    return isinstance(codec, TransductionCodec) and codec.source.notation.split == "lemma_tags"


def input_lines(codec: Codec, inputs: Sequence[Any], method: str) -> list[str]:
    """The inputs as lines of text.

    Raises:
        LabError: they are not a list, one of them is neither text nor an array that the model reads, or
            it has a tab although sources have none. The message names the method that was called.
    """
    _check_list(inputs, method)
    lines = []
    for number, one in enumerate(inputs, start=1):
        try:
            lines.append(codec.as_line(one))
        except LabError as error:
            raise LabError(f"{method}: input {number} {error}") from None
    if not isinstance(codec, TransductionCodec) or reads_columns(codec):
        return lines
    if "\t" in codec.source.vocabulary.symbols:
        return lines
    for number, line in enumerate(lines, start=1):
        if "\t" in line and line.strip():
            raise LineError(number, "contains a tab; give only the source")
    return lines


def input_tokens(tokenizer: Tokenizer, line: str, number: int) -> Sequence[str]:
    """The symbols of an input; none if it is empty. Raises LineError."""
    try:
        return tokenizer.tokens(line) if line.strip() else ()
    except LabError as error:
        raise LineError(number, str(error)) from None


def input_tokenizer(codec: Codec) -> Tokenizer | None:
    """The tokenizer of the inputs; None for inputs that are not split into symbols."""
    if isinstance(codec, TransductionCodec):
        return codec.source
    return codec.tokenizer if isinstance(codec, ClassificationCodec | LanguageCodec) else None


def _check_list(inputs: object, method: str) -> None:
    """Raise LabError unless `inputs` is a list."""
    if isinstance(inputs, str):
        short = inputs if len(inputs) <= _SHOWN else f"{inputs[:_SHOWN]}..."
        raise LabError(f"{method} takes a list of inputs, not a single text: {method}([{short!r}])")
    if not isinstance(inputs, Sequence) or isinstance(inputs, bytes):
        example = f"such as {method}({'list(array)' if hasattr(inputs, 'ndim') else '[one, two]'})"
        kind = type(inputs).__name__
        raise LabError(f"{method} takes a list of inputs, {example}, not a value of the type {kind}")


def symbol_lists(codec: Codec) -> dict[str, str]:
    """The symbols that a codec reads and writes, by the names of its parts."""
    found = {}
    for field in fields(codec):
        value = getattr(codec, field.name)
        names = value.vocabulary.symbols if isinstance(value, Tokenizer) else value
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            more = " ..." if len(names) > _LISTED else ""
            found[field.name] = f"{len(names):,}: {' '.join(names[:_LISTED])}{more}"
    return found
