"""The archive that a checkpoint is: of the form that PyTorch writes, and as it was written."""

import os
import pickle
import struct
import zipfile
from pathlib import Path

from attention_lab.errors import LabError
from attention_lab.untrusted.pickles import check_pickle

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")


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
