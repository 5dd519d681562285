"""Files and folders as an option names them: one, several, or those that fit a pattern."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path

from attention_lab.errors import LabError


def expand_paths(
    given: Sequence[str | Path], option: str, kind: str, is_one: Callable[[Path], bool]
) -> list[Path]:
    """The paths that are meant, each once; those that fit a pattern (`logs/*/best.ckpt`) sorted.

    Args:
        given: paths and patterns. A path may look like a pattern: what is there is taken as it is.
        option: where they were given, for the message.
        kind: what is looked for, for the message.
        is_one: whether a path is of this kind, and there.

    Raises:
        LabError: nothing fits a pattern. A path that is none is not looked for.
    """
    paths: list[Path] = []
    for text in map(str, given):
        if is_one(Path(text)) or not glob.has_magic(text):
            paths.append(Path(text))
            continue
        found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # Path.glob takes none from /
        fitting = [path for path in map(Path, found) if is_one(path)]
        if not fitting:
            raise LabError(f"{option}={text}: no {kind} fits")
        paths += fitting
    return list(dict.fromkeys(paths))
