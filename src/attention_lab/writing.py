"""Files that are written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from attention_lab.errors import LabError

PART = ".part"
"""The end of the name of a file that is being written."""


def write_atomically(path: Path, content: str | bytes | memoryview, previous: Path | None = None) -> None:
    """Write a file whole, on the disk, or not at all: what was there before stays until then.

    Args:
        path: where to.
        content: text, or bytes.
        previous: what was at `path` moves here, once the new one is written.

    Raises:
        LabError: it cannot be written, as on a full disk; nothing half-written is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            path.replace(previous)
        temporary.replace(path)
    except OSError as error:
        remove(temporary)
        raise cannot_write(path, error) from None


def remove(path: Path) -> None:
    """Remove a file that may be there, if that is possible."""
    with suppress(OSError):  # where nothing can be written, not everything can be removed
        path.unlink(missing_ok=True)


def cannot_write(path: Path | str, error: OSError) -> LabError:
    """What to say of a file that could not be written."""
    return LabError(
        f"cannot write {path}: {error.strerror or error}; make room there and go on with "
        "resume=<the run's folder>, or choose another folder with hydra.run.dir=..."
    )
