"""The small files of a run's folder, which may come from anybody: read as plain values, or refused in a line.

Nothing in them is resolved or run: `${...}` stays text. What could take memory or time without end (nesting,
references, endless numbers) and what no file of ours has (tags) is refused before it is built.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from attention_lab.errors import LabError
from attention_lab.reading import read_regular
from attention_lab.text_tables import printable

MAX_BYTES = 4 << 20
"""Most bytes of a file."""
MAX_DEPTH = 100
"""Most levels of options within options; the parser, in C, ends the program at some thousands."""
BAD_VALUE_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    AssertionError,
)
"""What values raise that are not what they should be."""
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-zA-Z_:.+-]{99,}")  # 1:1:1:... takes time without end, 0xfff... no text
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_small_text(path: Path, name: str | None = None) -> str:
    """The text of a small file (UTF-8, with or without a byte order mark).

    Args:
        path: of the file.
        name: what messages call it; None: its last part.

    Raises:
        LabError: it is missing, no regular file, too large or not UTF-8.
    """
    name = path.name if name is None else name
    try:
        return read_regular(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise LabError(f"{name} is missing") from None
    except OSError as error:
        raise LabError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise LabError(f"{name} cannot be read: {one_line(error)}") from None


def read_yaml(path: Path, name: str | None = None) -> Any:
    """What a YAML file holds, as plain values. Raises LabError if it cannot be read; see `read_small`."""
    text = read_small_text(path, name)
    name = path.name if name is None else name
    try:
        _check_events(text, name)
        # This loader makes plain values only, and resolves no interpolation: a file can run nothing.
        return yaml.load(text, Loader=_LOADER)
    except (ValueError, TypeError, LookupError, RecursionError, yaml.YAMLError) as error:
        raise LabError(f"{name} cannot be read: {one_line(error)}") from None


def read_json(path: Path, name: str | None = None) -> Any:
    """What a JSON file holds. Raises LabError if it cannot be read; see `read_small`."""
    text = read_small_text(path, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        name = path.name if name is None else name
        raise LabError(f"{name} cannot be read: {one_line(error)}") from None


def one_line(error: object) -> str:
    """A message in one line."""
    return printable(" ".join(str(error).split())) or type(error).__name__


def _check_events(text: str, name: str) -> None:
    """Refuse what the parser, which takes the text in pieces, would build without end."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise LabError(f"{name} cannot be read: more than {MAX_DEPTH} levels of options")
        if isinstance(event, yaml.AliasEvent):
            raise LabError(f"{name} cannot be read: it has references (*{event.anchor[:40]})")
        if getattr(event, "tag", None) not in (None, "!"):
            raise LabError(f"{name} cannot be read: it has tags ({event.tag[:40]})")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _NUMBER.fullmatch(event.value):
            raise LabError(f"{name} cannot be read: it has a number of {len(event.value)} characters")
