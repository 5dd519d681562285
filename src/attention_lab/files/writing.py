"""Write files atomically: completely or not at all."""

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attention_lab.errors import LabError

PART = ".part"
"""Suffix of a file that is being written."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR)  # a file in place of a folder, in a run's folder from others


def write_atomically(path: Path, content: str | bytes | memoryview, previous: Path | None = None) -> None:
    """Write a file completely or not at all; the old file stays in place until the new one is on disk.

    Args:
        path: the file to write.
        content: text or bytes.
        previous: where to move the old file once the new one is written; None to replace it.

    Raises:
        LabError: the file cannot be written, for example because the disk is full; no partial file is left.
    """
    temporary = _write_temporary(path, content)
    try:
        if previous is not None and path.exists():
            path.replace(previous)
        temporary.replace(path)
    except OSError as error:
        remove(temporary)
        raise cannot_write(path, error) from None


def write_together(contents: Mapping[Path, str | bytes | memoryview]) -> None:
    """Write files that belong together: the old ones stay in place until all new ones are on disk.

    Raises:
        LabError: one of them cannot be written; then none is.
    """
    temporaries: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            if path.is_dir() and not path.is_symlink():
                raise cannot_write(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
            temporaries[path] = _write_temporary(path, content)
        for path, temporary in temporaries.items():
            try:
                temporary.replace(path)
            except OSError as error:
                raise cannot_write(path, error) from None
    except LabError:
        for temporary in temporaries.values():
            remove(temporary)
        raise


def check_writable(path: Path) -> None:
    """Make the folder of a file. Raises the LabError of `write_atomically` if it cannot be written to."""
    temporary, number = _open_temporary(path)
    os.close(number)
    remove(temporary)


def _write_temporary(path: Path, content: str | bytes | memoryview) -> Path:
    """A new file in the folder of `path` with this content, which is on disk."""
    temporary, number = _open_temporary(path)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remove(temporary)
        raise cannot_write(path, error) from None
    return temporary


def _open_temporary(path: Path) -> tuple[Path, int]:
    """A new file in the folder of `path`, and its descriptor."""
    # The folder may come from others: a random name, and O_EXCL, which follows no link there.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return temporary, os.open(temporary, flags, 0o666)
    except OSError as error:
        raise cannot_write(path, error) from None


def remove(path: Path) -> None:
    """Remove a file if it exists and can be removed."""
    with suppress(OSError):  # on a disk that cannot be written to, removing may fail too
        path.unlink(missing_ok=True)


def remove_partial_files(*folders: Path) -> None:
    """Remove the partly written files that a killed run left in these folders."""
    for folder in folders:
        for path in folder.glob(f".*{PART}"):
            remove(path)


def cannot_write(path: Path | str, error: OSError) -> LabError:
    """The error for a file that could not be written, saying what the user can do about it."""
    if isinstance(error, IsADirectoryError):
        advice = "remove it, or choose another name"
    else:
        first = "free some space and" if error.errno in _FULL else "once it can be written,"
        again = "repeat the command, with resume=<the run's folder> if it trained"
        advice = f"{first} {again}, or choose another folder with hydra.run.dir=..."
    return LabError(f"cannot write {path}: {error.strerror or error}; {advice}")


def failed_write(error: OSError, folder: Path | str) -> LabError | None:
    """The error for anything that other code failed to write in a folder; None for other errors."""
    if error.errno in _IN_THE_WAY and error.filename:
        return LabError(f"{error.filename} should be a folder: remove the file there")
    if error.errno not in _UNWRITABLE:
        return None
    if error.filename in ("<stdout>", "<stderr>"):
        return LabError(f"cannot write to {error.filename.strip('<>')}: {error.strerror}")
    return cannot_write(error.filename or folder, error)
