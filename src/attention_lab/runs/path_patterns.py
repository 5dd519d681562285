"""Expand patterns in an option that names files or folders."""

import glob
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_folder
from attention_lab.untrusted.folder_links import MOST_LEVELS


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
        matches = [path for path in map(Path, sorted(set(_matches(text)))) if is_one(path)]
        if not matches:
            raise LabError(f"{option}={text}: no {kind} matches")
        paths += matches
    return list(dict.fromkeys(paths))


def _matches(pattern: str) -> Iterator[str]:
    """The paths that match a pattern; `**` stands for any folders below, but follows no links."""
    before, all_levels, after = f"/{pattern}/".partition("/**/")
    if not all_levels:
        yield from glob.glob(pattern)  # noqa: PTH207  # Path.glob rejects absolute patterns
        return
    # With recursive=True, glob follows links; with two links to their own folder, it would never finish.
    for start in glob.glob(f"{before}/"[1:] or "./"):  # noqa: PTH207
        for folder, _ in walk(Path(start)):
            if not any(part.startswith(".") for part in folder.relative_to(start).parts):
                yield from _matches(str(Path(glob.escape(str(folder)), after.strip("/") or "*")))


def walk(
    folder: Path, without: Collection[str] = (), unreadable: Callable[[OSError], object] = lambda error: None
) -> Iterator[tuple[Path, set[str]]]:
    """A folder and all folders up to `MOST_LEVELS` below it, sorted, each with the names of the files in it.

    Links to folders are not followed. Folders from others may be nested deeply: opening one takes time
    proportional to its depth, and a pattern that matches all of them is searched again below each.

    Args:
        folder: the folder.
        without: names of folders to leave out.
        unreadable: called with the error of each folder that cannot be read, and is left out.
    """
    pending = [(folder, 0)]
    while pending:
        path, level = pending.pop()
        try:
            with os.scandir(path) as entries:
                found = list(entries)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # it has been removed
                unreadable(error)
            continue
        # `entry.is_dir()` fails for a link to itself.
        files = (one for one in found if one.is_file(follow_symlinks=False) or not is_folder(one.path))
        yield path, {one.name for one in files}
        below = {entry.name for entry in found if entry.is_dir(follow_symlinks=False)}
        if level < MOST_LEVELS:
            pending += [(path / name, level + 1) for name in sorted(below.difference(without), reverse=True)]
