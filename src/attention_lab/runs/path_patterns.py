"""Expand the patterns in an option's files or folders."""

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attention_lab.errors import LabError


def expand_paths(
    given: Sequence[str | Path], option: str, kind: str, is_one: Callable[[Path], bool]
) -> list[Path]:
    """The given paths without duplicates; the matches of a pattern such as `logs/*/best.ckpt` are sorted.

    Args:
        given: paths and patterns. A path that exists is not treated as a pattern.
        option: the name of the option, for the message.
        kind: the kind of path wanted, for the message.
        is_one: whether a path exists and is of this kind.

    Raises:
        LabError: nothing matches a pattern. A path without a pattern need not exist.
    """
    paths: list[Path] = []
    for text in (os.path.expanduser(one) for one in map(str, given)):  # noqa: PTH111  # which fails for ~nobody
        if is_one(Path(text)) or not glob.has_magic(text):
            paths.append(Path(text))
            continue
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # Path.glob rejects absolute patterns
        matches = [path for path in map(Path, found) if is_one(path)]
        if not matches:
            raise LabError(f"{option}={text}: no {kind} matches")
        paths += matches
    return list(dict.fromkeys(paths))
