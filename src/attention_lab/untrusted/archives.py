"""The archive that a checkpoint is: of the form that PyTorch writes, and as it was written."""

import os
import pickle
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.errors import LabError
from attention_lab.untrusted.pickles import check_pickle

NOT_OURS = "not a checkpoint of attention-lab"
_DAMAGED = (
    *(LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, AssertionError),
    *(OSError, EOFError, MemoryError, struct.error, zipfile.BadZipFile),
)
_DEEPEST = 100  # levels of values within values
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")


def load_archive(path: Path, name: str | None = None) -> Any:
    """What a checkpoint holds: plain values and whole tensors, of no more memory than the file has bytes.

    Args:
        path: of the checkpoint.
        name: what messages call it; None: its path.

    Raises:
        LabError: it is damaged, no checkpoint, or holds code or anything else.
    """
    name = str(path) if name is None else name
    try:
        values = check_archive(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch says of a strange file, we say in one line
            content = torch.load(path, map_location="cpu", weights_only=True)
        if not _is_plain(content, values):
            raise LabError("it holds more than plain values and whole tensors")
    except LabError as error:
        raise LabError(f"{name}: {error}: not loaded") from None
    except pickle.UnpicklingError:
        raise LabError(f"{name}: {NOT_OURS}, or it holds code: not loaded") from None
    except _DAMAGED:
        raise LabError(f"{name}: the file is damaged or cut short") from None
    return content


def check_archive(path: Path) -> int:
    """Check a checkpoint before `torch.load` reads it: its form, checksums, pickle and sizes.

    PyTorch reads archives with a library of its own, which looks at no checksum and might understand an odd
    archive in another way; so anything but one plain archive is refused.

    Returns:
        The bytes of the pickle.

    Raises:
        LabError: it is compressed, or larger than the machine's memory.
        pickle.UnpicklingError: it is no checkpoint, or would do more than build plain values and tensors.
        zipfile.BadZipFile, ValueError, LookupError, EOFError: it is damaged, as by one flipped bit.
    """
    with path.open("rb") as file:
        start = file.read(4)
        if not start.startswith(b"PK"):  # PyTorch would read older forms too, which claim any size
            raise EOFError if len(start) < 4 else pickle.UnpicklingError
        size = os.fstat(file.fileno()).st_size
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > memory:
            raise LabError(f"it has {size >> 30} GiB, and this machine has {memory >> 30} GiB of memory")
        _check_ends(file.seek(0, os.SEEK_END), file.fileno())
        with zipfile.ZipFile(file) as archive:
            return _check_parts(archive, size)


def _check_ends(size: int, file: int) -> None:
    """Refuse what stands before or after the archive, where two readers may see two archives."""
    directory = size - _END.size
    signature, *_, length, start, comment = _END.unpack(os.pread(file, _END.size, max(directory, 0)))
    if signature != b"PK\5\6" or comment:
        raise zipfile.BadZipFile
    place = directory - _LOCATOR.size
    if os.pread(file, 4, max(place, 0)) == b"PK\6\7":
        directory = _LOCATOR.unpack(os.pread(file, _LOCATOR.size, place))[2]
        if directory != place - _END_64.size:
            raise zipfile.BadZipFile
        length, start = _END_64.unpack(os.pread(file, _END_64.size, directory))[-2:]
    if start + length != directory:
        raise zipfile.BadZipFile


def _check_parts(archive: zipfile.ZipFile, size: int) -> int:
    parts = archive.infolist()
    grows = sum(part.file_size for part in parts) > size
    if grows or any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise LabError("it is compressed, which no checkpoint of attention-lab is")
    names = {part.filename.lower() for part in parts}  # PyTorch does not tell upper from lower case
    roots = {part.filename.partition("/")[0] for part in parts}
    if len(names) != len(parts) or len(roots) != 1:
        raise zipfile.BadZipFile
    if archive.testzip() is not None:
        raise zipfile.BadZipFile
    (root,) = roots
    prefix = f"{root}/data/"
    records = {
        part.filename.removeprefix(prefix): part.file_size
        for part in parts
        if part.filename.startswith(prefix)
    }
    content = archive.read(f"{root}/data.pkl")
    check_pickle(content, records)
    return len(content)


def _is_plain(content: object, most: int) -> bool:
    """Whether all is plain values and whole tensors, with no more than `most` values, each time it is met.

    Values that are shared, which take no room in the file, could otherwise be nested without end.
    """
    waiting = [(content, 0)]
    for _ in range(most):
        if not waiting:
            return True
        value, depth = waiting.pop()
        if type(value) in (dict, OrderedDict):
            assert isinstance(value, dict)
            if not getattr(value, "__dict__", {}).keys() <= {"_metadata"}:  # more would stand for methods
                return False
            waiting += ((part, depth + 1) for pair in value.items() for part in pair)
        elif type(value) in (list, tuple, set, torch.Size):
            assert isinstance(value, Sequence | set)
            waiting += ((part, depth + 1) for part in value)
        elif isinstance(value, Tensor):
            if not _is_whole(value):
                return False
        elif type(value) not in (bool, int, float, str, bytes, type(None)):
            return False
        if depth > _DEEPEST:
            return False
    return not waiting


def _is_whole(tensor: Tensor) -> bool:
    """Whether its numbers are all there; a view may repeat one without end."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )
