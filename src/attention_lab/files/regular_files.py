"""Open regular files for reading, and reject all others: a pipe, device or socket may block forever."""

import errno
import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_CHUNK = 1 << 20


def is_file(path: str | Path) -> bool:
    """Whether a path is a regular file; False, where `Path.is_file` raises, if the path is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder; False if the path is too long."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: str | Path) -> bool:
    """Whether a path exists; False if it is too long."""
    return os.path.exists(path)  # noqa: PTH110


def lexists(path: str | Path) -> bool:
    """Whether a path exists, even as a broken link; False if it is too long."""
    return os.path.lexists(path)


def matches_in(folder: Path, pattern: str) -> list[Path]:
    """The sorted paths in a folder whose names match; none, where `Path.glob` raises, if it is unreadable."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  # only the names are needed
    except OSError:
        return []
    return sorted(folder / name for name in fnmatch.filter(names, pattern))


def is_utf8(text: str) -> bool:
    """Whether a path, or a text from a pickle, can be written as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_regular(path: str | Path, most: int | None = None) -> BinaryIO:
    """Open a regular file, or a link to one, for reading; never blocks waiting for a writer.

    Args:
        path: path of the file.
        most: largest size allowed, in bytes; None for no limit.

    Raises:
        OSError: the file is missing, unreadable, too large or not a regular file; `strerror` says which.
    """
    try:
        status = Path(path).stat()
    except ValueError:  # it has a null character, or a lone surrogate
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    _check(status, path, most)  # before opening: merely opening some devices has side effects
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _check(os.fstat(number), path, most)  # again: the file may have been replaced in the meantime
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: str | Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. Raises OSError as `open_regular` does."""
    with open_regular(path, most) as file:
        return read_up_to(file, most, path)


def read_lines(path: str | Path, most: int, longest: int) -> Iterator[bytes]:
    """Yield the lines of a regular file one by one, without the line feeds at their ends.

    Args:
        path: path of the file.
        most: largest size allowed, in bytes.
        longest: largest length of a line allowed, in bytes.

    Raises:
        OSError: see `open_regular`; or a line is too long.
    """
    with open_regular(path, most) as file:
        left = most
        while line := file.readline(longest + 1):
            left -= len(line)
            if left < 0:  # some system files report size 0 but never end
                raise _too_large(most, path)
            if len(line) > longest:
                raise OSError(errno.EINVAL, f"a line is longer than {longest} bytes", str(path))
            yield line.removesuffix(b"\n")


def read_up_to(file: BinaryIO, most: int, path: str | Path) -> bytes:
    """Read the rest of an open file. Raises OSError, naming `path`, if it is longer than `most` bytes."""
    chunks, left = [], most
    while chunk := file.read(_CHUNK):  # some system files report size 0 but never end
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            raise _too_large(most, path)
    return b"".join(chunks)


def not_a_file(mode: int) -> str:
    """Say what has this mode (`st_mode`) instead of a regular file."""
    return f"it is a {_KINDS.get(stat.S_IFMT(mode), 'special file')}, not a regular file"


def _check(status: os.stat_result, path: str | Path, most: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, not_a_file(status.st_mode), str(path))
    if most is not None and status.st_size > most:
        raise _too_large(most, path)


def _too_large(most: int, path: str | Path) -> OSError:
    size = f"{most >> 20} MiB" if most >> 20 else f"{most} bytes"
    return OSError(errno.EINVAL, f"it is larger than {size}", str(path))
