"""Expand patterns in an option that names files or folders."""

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attention_lab.errors import LabError


def expand_paths(
    given: Sequence[str | Path], option: str, kind: str, is_one: Callable[[Path], bool]
) -> list[Path]:
    """Expand patterns such as `logs/*/best.ckpt` to their sorted matches; returns paths without duplicates.

    Args:
        given: paths and patterns. A path that exists is not treated as a pattern.
        option: the name of the option, for the message.
        kind: the kind of path wanted, for the message.
        is_one: whether a path exists and is of this kind.

    Raises:
        LabError: nothing matches a pattern. A path without a pattern need not exist.
    """
    paths: list[Path] = []
    for text in (os.path.expanduser(one) for one in map(str, given)):  # noqa: PTH111  # Path's fails for ~nobody
        if is_one(Path(text)) or not glob.has_magic(text):
            paths.append(Path(text))
            continue
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # Path.glob rejects absolute patterns
        matches = [path for path in map(Path, found) if is_one(path)]
        if not matches:
            raise LabError(f"{option}={text}: no {kind} matches")
        paths += matches
    return list(dict.fromkeys(paths))
