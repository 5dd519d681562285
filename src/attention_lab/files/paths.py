"""Whether a path lies in a folder, and how messages show a path."""

import os
from pathlib import Path


def is_inside(path: str | Path, folder: str | Path) -> bool:
    """Whether a path, after following links, is a folder or lies in it; it need not exist."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def short_path(path: str | Path, base: str | Path = ".") -> str:
    """A path for messages: relative to `base`, by default the working directory, if it lies below it."""
    whole, here = Path(os.path.abspath(path)), os.path.abspath(base)  # noqa: PTH100  # links are not followed
    return str(whole.relative_to(here) if whole.is_relative_to(here) else path)
