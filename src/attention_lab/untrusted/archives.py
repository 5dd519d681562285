"""Load a checkpoint's archive after checking that it is intact and in the form that PyTorch writes."""

import os
import pickle
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn

from attention_lab.errors import BAD_VALUE_ERRORS, LabError
from attention_lab.files.regular_files import open_regular
from attention_lab.machine import usable_memory
from attention_lab.untrusted.pickles import NOT_PLAIN, check_pickle

NOT_OURS = "not a checkpoint of attention-lab"
_DAMAGED = (*BAD_VALUE_ERRORS, OSError, EOFError, MemoryError, struct.error, zipfile.BadZipFile)
LARGEST_DIRECTORY = 1 << 25
"""Largest size in bytes of an archive's central directory, which has about 100 for each entry; to read it,
`zipfile` needs seven times as much memory."""
_DEEPEST = 100  # levels of nested values
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_FIELD = struct.Struct("<2H")


def load_archive(path: Path, name: str | None = None) -> Any:
    """Load a checkpoint: plain values and complete tensors, in no more memory than the file's size.

    Args:
        path: the checkpoint's path.
        name: its name in messages; None for its path.

    Raises:
        LabError: it is damaged, not a checkpoint, or contains code or anything else.
    """
    name = str(path) if name is None else name
    try:
        opened = open_regular(path)
    except OSError as error:
        raise LabError(f"{name}: {error.strerror}") from None
    try:
        with opened as file, warnings.catch_warnings():  # once: it may be replaced meanwhile
            values = check_archive(file)
            file.seek(0)
            warnings.simplefilter("ignore")  # our own message replaces torch's
            content = torch.load(file, map_location="cpu", weights_only=True)
        if not _is_plain(content, values):
            raise LabError(NOT_PLAIN)
    except LabError as error:
        raise LabError(f"{name}: {error}: not loaded") from None
    except pickle.UnpicklingError:
        raise LabError(f"{name}: {NOT_OURS}, or it contains code: not loaded") from None
    except _DAMAGED:
        raise LabError(f"{name}: the file is damaged or truncated") from None
    return content


def check_archive(file: BinaryIO) -> int:
    """Check a checkpoint's format, checksums, pickle and sizes before `torch.load` reads it.

    PyTorch reads archives with its own library, which ignores checksums and might interpret an unusual
    archive differently. So anything but a single plain archive is rejected.

    Returns:
        The size of the pickle in bytes.

    Raises:
        LabError: it is compressed, or larger than the machine's memory.
        pickle.UnpicklingError: it is not a checkpoint, or would do more than build plain values and tensors.
        zipfile.BadZipFile, ValueError, LookupError, EOFError: it is damaged, even by one flipped bit.
        OSError: it cannot be read.
    """
    start = file.read(4)
    if not start.startswith(b"PK"):  # PyTorch also reads older formats, which can claim any size
        raise EOFError if len(start) < 4 else pickle.UnpicklingError
    size = os.fstat(file.fileno()).st_size
    memory = usable_memory()
    if size > memory:
        raise LabError(f"it takes {size >> 30} GiB, but this machine has {memory >> 30} GiB of memory")
    _check_ends(file.seek(0, os.SEEK_END), file.fileno())
    with zipfile.ZipFile(file) as archive:
        return _check_parts(archive, size)


def _check_ends(size: int, file: int) -> None:
    """Reject data before or after the archive, since two readers might then see two different archives."""
    directory = size - _END.size
    signature, *_, length, start, comment = _END.unpack(os.pread(file, _END.size, max(directory, 0)))
    if signature != b"PK\5\6" or comment:
        raise zipfile.BadZipFile
    locator = directory - _LOCATOR.size
    if os.pread(file, 4, max(locator, 0)) == b"PK\6\7":
        directory = _LOCATOR.unpack(os.pread(file, _LOCATOR.size, locator))[2]
        if directory != locator - _END_64.size:
            raise zipfile.BadZipFile
        length, start = _END_64.unpack(os.pread(file, _END_64.size, directory))[-2:]
    if start + length != directory or length > LARGEST_DIRECTORY:
        raise zipfile.BadZipFile


def _check_parts(archive: zipfile.ZipFile, size: int) -> int:
    parts = archive.infolist()
    grows = sum(part.file_size for part in parts) > size
    if grows or any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise LabError("it is compressed; checkpoints of attention-lab never are")
    names = {part.filename.lower() for part in parts}  # PyTorch ignores case
    roots = {part.filename.partition("/")[0] for part in parts}
    plain = all(_is_plain_extra(part.extra) for part in parts)
    if not plain or len(names) != len(parts) or len(roots) != 1 or archive.testzip() is not None:
        raise zipfile.BadZipFile
    return check_values(archive)


def check_values(archive: zipfile.ZipFile) -> int:
    """Check what the pickle of an archive that PyTorch has written would build; see `check_pickle`.

    Returns:
        The size of the pickle in bytes.
    """
    parts = archive.infolist()
    root = parts[0].filename.partition("/")[0]
    prefix = f"{root}/data/"
    records = {
        part.filename.removeprefix(prefix): part.file_size
        for part in parts
        if part.filename.startswith(prefix)
    }
    content = archive.read(f"{root}/data.pkl")
    check_pickle(content, records)
    return len(content)


def _is_plain_extra(extra: bytes) -> bool:
    """Whether the extra field of a part is empty, or holds only its sizes and position in 8 bytes, once.

    With other fields, or repeated numbers, `zipfile` and PyTorch would read different names and sizes.
    """
    return not extra or (
        len(extra) >= _FIELD.size and _FIELD.unpack_from(extra) == (1, len(extra) - _FIELD.size)
    )


def _is_plain(content: object, most: int) -> bool:
    """Whether the content has only plain values and complete tensors, at most `most` of them.

    A value that appears several times counts each time. Repeats take no space in the file, so they could
    otherwise be nested without limit.
    """
    pending = [(content, 0)]
    for _ in range(most):
        if not pending:
            return True
        value, depth = pending.pop()
        if type(value) in (dict, OrderedDict):
            assert isinstance(value, dict)
            if not _has_plain_attributes(value):
                return False
            pending += ((part, depth + 1) for pair in value.items() for part in pair)
        elif type(value) in (list, tuple, set, torch.Size):
            assert isinstance(value, Sequence | set)
            pending += ((part, depth + 1) for part in value)
        elif isinstance(value, Tensor):
            if not _is_complete(value):
                return False
        elif type(value) not in (bool, int, float, str, bytes, type(None)):
            return False
        if depth > _DEEPEST:
            return False
    return not pending


def _has_plain_attributes(values: dict[Any, Any]) -> bool:
    """Whether a dictionary has no attributes except module versions; others could replace methods.

    Metadata other than versions would be options of `load_state_dict`.
    """
    attributes = getattr(values, "__dict__", {})
    metadata = attributes.get("_metadata", {})
    return (
        attributes.keys() <= {"_metadata"}
        and isinstance(metadata, dict)
        and all(isinstance(one, dict) and one.keys() <= {"version"} for one in metadata.values())
        and all(type(version) is int for one in metadata.values() for version in one.values())
    )


def _is_complete(tensor: Tensor) -> bool:
    """Whether the storage contains every element; a view could repeat one element without limit."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )
