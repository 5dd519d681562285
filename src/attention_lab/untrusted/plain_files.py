"""Read the small files of a run's folder, which may come from anyone, as plain values.

Nothing in them is resolved or run: `${...}` stays text. Anything that could take unbounded memory or time
(nesting, references, endless numbers) is rejected before it is built, and so are tags and directives, which
our files do not use.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from attention_lab.config_parts import MOST_LEVELS
from attention_lab.console_text import one_line
from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists, is_file, lexists, not_a_file, read_regular
from attention_lab.untrusted.pickles import LARGEST_KEY

MAX_BYTES = 4 << 20
"""Maximum size of a file in bytes."""
MOST_VALUES = 10_000
"""Maximum number of values in a YAML file or a configuration, which have hundreds; resuming a run takes 300
microseconds for each."""
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-zA-Z_:.+-]{99,}")  # 1:1:1:... takes forever, 0xfff... cannot print
_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])\ufeff?(%[^\r\n]{0,40})")  # many take quadratic time
_TAG = "tag:yaml.org,2002:"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_checkpoint_exists(path: Path) -> None:
    """Raise LabError if a checkpoint is not a file."""
    if is_file(path):
        return
    problem = "no such file; a run's checkpoints are in its folder checkpoints/"
    if exists(path):
        problem = not_a_file(path.stat().st_mode)
    elif lexists(path):
        problem = "it is a link that leads to no file"
    raise LabError(f"ckpt_path={path}: {problem}")


def read_small_text(path: Path, name: str | None = None) -> str:
    """Read the text of a small file (UTF-8, with or without a byte order mark).

    Args:
        path: the file's path.
        name: its name in messages; None for the last part of its path.

    Raises:
        LabError: it is missing, not a regular file, too large or not UTF-8.
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
    """Read the plain values in a YAML file. Raises LabError if it cannot be read; see `read_small_text`."""
    text = read_small_text(path, name)
    name = path.name if name is None else name
    try:
        _check_events(text, name)
        # This loader builds only plain values and resolves no interpolations: a file cannot run anything.
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            _check_keys(node)
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (ValueError, TypeError, LookupError, RecursionError, yaml.YAMLError) as error:
        raise LabError(f"{name} cannot be read: {one_line(error)}") from None


def read_json(path: Path, name: str | None = None) -> Any:
    """Read a JSON file. Raises LabError if it cannot be read; see `read_small_text`."""
    text = read_small_text(path, name)
    try:
        found = json.loads(text)
        _check_depth(found)
        return found
    except (ValueError, RecursionError) as error:
        name = path.name if name is None else name
        raise LabError(f"{name} cannot be read: {one_line(error)}") from None


def _check_events(text: str, name: str) -> None:
    """Reject, event by event, anything that the loader would build without limit."""
    if found := _DIRECTIVE.search(text):
        raise LabError(f"{name} cannot be read: it has directives ({found[1]})")
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        values += isinstance(event, yaml.NodeEvent)
        if values > MOST_VALUES:
            raise LabError(f"{name} cannot be read: it has more than {MOST_VALUES:,} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_LEVELS:
            raise LabError(f"{name} cannot be read: it has more than {MOST_LEVELS} levels of options")
        if isinstance(event, yaml.AliasEvent):
            raise LabError(f"{name} cannot be read: it has references (*{event.anchor[:40]})")
        if getattr(event, "tag", None) not in (None, "!"):
            raise LabError(f"{name} cannot be read: it has tags ({event.tag[:40]})")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _NUMBER.fullmatch(event.value):
            raise LabError(f"{name} cannot be read: it has a number of {len(event.value)} characters")


def levels(value: Any) -> Iterator[list[Any]]:
    """Yield a value, then the values in it, then the values in those, and so on, through dicts and lists."""
    level = [value]
    while level:
        yield level
        nested = [one for one in level if type(one) in (dict, list)]
        level = [part for one in nested for part in (one.values() if isinstance(one, dict) else one)]


def _check_depth(value: Any) -> None:
    """Raise ValueError if lists and groups are nested more deeply than recursive functions can follow."""
    if any(depth == MOST_LEVELS for depth, _ in enumerate(levels(value))):
        raise ValueError(f"it has more than {MOST_LEVELS} levels of options")


def _check_keys(root: yaml.Node | None) -> None:
    """Reject merges, and keys that would make a mapping take quadratic time to build: see `LARGEST_KEY`."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                pending += [key, value]
                if key.tag == f"{_TAG}merge" or (key.tag == f"{_TAG}int" and not _is_small(key.value)):
                    raise ValueError(
                        f"the key {key.value[:40]}: keys must be text, or whole numbers "
                        f"of at most {LARGEST_KEY - 1}"
                    )


def _is_small(number: str) -> bool:
    """Whether an integer, as written in YAML, is small; some unusual notations always count as large."""
    try:
        return abs(int(number, 0)) < LARGEST_KEY
    except ValueError:  # 007 or 1:30
        return len(number) < len(str(LARGEST_KEY))
