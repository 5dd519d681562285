"""Read the inputs of `stage=predict` from the command line, a file or standard input."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from attention_lab.commandline.overrides import as_text, list_items, quote, split_override
from attention_lab.data.reading.files import LARGEST_FILE, decode_text, read_text
from attention_lab.errors import LabError, LineError
from attention_lab.files.regular_files import exists, read_up_to

STREAM = re.compile(r"-|/dev/stdin|/dev/fd/(\d+)|/proc/self/fd/(\d+)")
"""Standard input, and the paths that shells make from `inputs=<(command)`; no other input may be a pipe."""


class Places(NamedTuple):
    """How messages refer to inputs.

    Attributes:
        source: the file, or "standard input"; empty for a list.
        unit: "line" or "input".
    """

    source: str
    unit: str

    @classmethod
    def of(cls, inputs: Any) -> Self:
        """The terms that fit the value of the option `inputs`."""
        if isinstance(inputs, list):
            return cls("", "input")
        return cls("standard input" if inputs == "-" else str(inputs), "line")

    @contextmanager
    def blame_lines(self, numbers: Sequence[int]) -> Iterator[None]:
        """Add the place to errors about a line; `numbers` are the line numbers of the texts being read."""
        try:
            yield
        except LineError as error:
            number = numbers[error.number - 1]
            place = f"{self.source}:{number}" if self.source else f"{self.unit} {number}"
            raise LabError(f"{place}: {error.problem}") from None

    def empty_warning(self, empty: Sequence[int], total: int) -> str:
        """A one-line warning about the empty inputs with these numbers."""
        one = len(empty) == 1
        where = f" in {self.source}" if self.source else ""
        return (
            f"{len(empty):,} of {total:,} {self.unit}s{where} {'is' if one else 'are'} empty "
            f"({'' if one else 'first: '}{self.unit} {empty[0]:,}), "
            f"and so {'is its output' if one else 'are their outputs'}"
        )


def read_inputs(inputs: Any, given: Iterable[str] = ()) -> list[str]:
    """The inputs for prediction, one per line, from a list, a file or standard input.

    An open stream (`-`, `/dev/stdin`, `/dev/fd/63`) is read to its end; any other path must be a regular
    file. Both must be UTF-8, whatever the locale.

    Args:
        inputs: the option's value.
        given: the overrides of the command line; in these, the items of a list are read as text even if they
            look like numbers or null.

    Raises:
        LabError: there are no lines, or they cannot be read.
    """
    if inputs is None or inputs == "":
        raise LabError(
            "stage=predict needs inputs: 'inputs=[one,two]', inputs=file.txt, or inputs=- for standard input"
        )
    if isinstance(inputs, list):
        for number, one in enumerate(inputs, start=1):
            if isinstance(one, list):
                text = quote(",".join(map(as_text, one)))
                raise LabError(f"inputs: input {number} is a list: write it as text, 'inputs=[{text}]'")
        typed = [split_override(one).value for one in given if split_override(one).key == "inputs"]
        lines = list_items(typed[-1]) if typed else [as_text(line) for line in inputs]
    else:
        stream = STREAM.fullmatch(str(inputs))
        text = _read_file(str(inputs)) if stream is None else _read_stream(str(inputs), stream)
        lines = text.split("\n")
    if not lines:
        raise LabError(f"inputs={inputs}: there are no inputs")
    return lines


def with_tabs(lines: Iterable[str]) -> list[str]:
    r"""The items of a list with a tab for each `\t` that is written out, unless an item has tabs already."""
    return [line if "\t" in line else line.replace("\\t", "\t") for line in lines]


def check_inputs(inputs: Any, given: Iterable[str]) -> None:
    """Raise the LabError of `read_inputs` early, except for a stream, which can be read only once."""
    if not (isinstance(inputs, str) and STREAM.fullmatch(inputs)):
        read_inputs(inputs, given)


def _read_file(path: str) -> str:
    try:
        return read_text(path)
    except LabError as error:
        if exists(path):
            raise
        single = path if re.fullmatch(r"[\w.-]+", path) else quote(path)
        raise LabError(f"{error}; to predict for a single input, write 'inputs=[{single}]'") from None


def _read_stream(name: str, stream: re.Match[str]) -> str:
    number = next((int(one) for one in stream.groups() if one is not None), 0)
    try:
        if number == 0:
            content = read_up_to(sys.stdin.buffer, LARGEST_FILE, name)
        else:
            with open(number, "rb", closefd=False) as file:  # a file descriptor
                content = read_up_to(file, LARGEST_FILE, name)
    except OSError as error:
        raise LabError(f"inputs={name}: {error.strerror}") from None
    if not content.strip():
        raise LabError(f"inputs={name}: there are no inputs")
    return decode_text(content, f"inputs={name}")
