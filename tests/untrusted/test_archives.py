"""A checkpoint's archive must be in PyTorch's format, intact, and no larger in memory than on disk."""

import os
import pickle
import random
import signal
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from torch import nn

from attention_lab.errors import LabError
from attention_lab.untrusted import archives
from attention_lab.untrusted.archives import check_archive, load_archive

REFUSED = (
    *(pickle.UnpicklingError, LabError, zipfile.BadZipFile, zipfile.LargeZipFile),
    *(ValueError, LookupError, EOFError, OSError, struct.error, NotImplementedError, RuntimeError),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small checkpoint with every kind of value that ours contain."""
    model = nn.GRU(3, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3))[0].sum().backward()
    optimizer.step()
    kinds = (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)
    content = {
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": nn.Parameter(torch.ones(2)),
        "kinds": [torch.ones(2, 3, dtype=kind) for kind in kinds],
        "shapes": [torch.tensor(1.0), torch.ones(0, 3), torch.ones(3, 2).T, torch.ones(2, 2).shape],
        "plain": {"a": [None, True, -(2**40), 1e-9, "é"], 1: ((), (1,), OrderedDict(x=1))},
    }
    torch.save(content, tmp_path / "mine.ckpt")
    return tmp_path / "mine.ckpt"


def check(path: Path) -> int:
    with path.open("rb") as file:
        return check_archive(file)


def test_our_own_checkpoints_pass(path: Path) -> None:
    assert check(path) > 1000
    assert len(torch.load(path, weights_only=True)) == 6


def test_what_is_checked_is_what_is_loaded(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if another file takes its place in between, as the next checkpoint of a training run does."""
    torch.save({"other": torch.ones(100)}, tmp_path / "next.ckpt")
    check = archives.check_archive

    def check_and_replace(file: BinaryIO) -> int:
        found = check(file)
        (tmp_path / "next.ckpt").replace(path)
        return found

    monkeypatch.setattr(archives, "check_archive", check_and_replace)
    assert "optimizer" in load_archive(path)


def test_no_flipped_bits_pass(path: Path) -> None:
    content, chance = path.read_bytes(), random.Random(0)
    with zipfile.ZipFile(path) as archive:
        part = next(one for one in archive.infolist() if one.filename.endswith("/data/0"))
        weights = part.header_offset + content[part.header_offset :].index(archive.read(part))
    torch.load(path, weights_only=True)
    for number in range(60):
        flipped = bytearray(content)
        for _ in range(1 if number < 50 else 50):
            # The first ones are in the weights, where PyTorch itself does not notice them.
            index = (
                weights + chance.randrange(part.file_size) if number < 30 else chance.randrange(len(flipped))
            )
            flipped[index] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        if number < 30:
            torch.load(path, weights_only=True)
        try:
            check(path)
        except REFUSED:
            continue
        # A bit that neither reader uses: the content is unchanged.
        path.write_bytes(content)
        before = str(torch.load(path, weights_only=True))
        path.write_bytes(flipped)
        assert str(torch.load(path, weights_only=True)) == before
        assert number >= 30


def _rewritten(path: Path, change: Callable[[dict[str, bytes]], Any], comment: bytes = b"") -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = comment
        for name, part in parts.items():
            archive.writestr(name, part)


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.update({"mine/DATA.pkl": b"."}),
        lambda parts: parts.update({"other/data.pkl": b"."}),
        lambda parts: parts.update({"mine/data/0": parts["mine/data/0"] + b"1234"}),
        lambda parts: parts.pop("mine/data/0"),
        lambda parts: parts.pop("mine/data.pkl"),
    ],
)
def test_odd_archives(change: Callable[[dict[str, bytes]], Any], path: Path) -> None:
    _rewritten(path, lambda parts: None)
    check(path)
    _rewritten(path, change)
    with pytest.raises(REFUSED):
        check(path)


def test_a_compressed_part_is_refused_even_if_it_is_not_smaller(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            kind = zipfile.ZIP_DEFLATED if name == "mine/data/0" else zipfile.ZIP_STORED
            archive.writestr(name, part, kind)
    assert sum(map(len, parts.values())) < path.stat().st_size
    with pytest.raises(LabError, match="it is compressed"):
        check(path)


def test_a_directory_of_millions_of_parts_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry takes 47 bytes of the file, and 350 in memory."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, *[0] * 7, 1, *[0] * 6) + b"a"
    count = archives.LARGEST_DIRECTORY // len(entry) + 1
    content = b"PK\3\4" + bytes(26) + entry * count
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(entry) * count, 30)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(content), 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[2**16 - 1] * 2, *[2**32 - 1] * 2, 0)
    path.write_bytes(content + end_64 + locator + end)
    monkeypatch.setattr(zipfile, "ZipFile", lambda _: pytest.fail("it reads the directory"))
    with pytest.raises(zipfile.BadZipFile):
        check(path)


@pytest.mark.parametrize(
    "extra",
    [
        struct.pack("<HHBL", 0x7075, 11, 1, zlib.crc32(b"mine/data.pkl")) + b"mine/x",
        struct.pack("<HHQ", 1, 8, 2**32 - 1) + struct.pack("<HHQ", 1, 8, 3),
        struct.pack("<HHL", 0xCAFE, 4, 0),
    ],
    ids=["another name", "two sizes", "unknown"],
)
def test_what_only_one_of_two_readers_uses_is_refused(extra: bytes, path: Path) -> None:
    """From Python 3.12 on, `zipfile` takes the name of a part from its extra field; PyTorch does not."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            info = zipfile.ZipInfo(name)
            info.extra = extra if name == "mine/data.pkl" else b""
            archive.writestr(info, part)
    with pytest.raises(zipfile.BadZipFile):
        check(path)


def test_data_before_or_after_the_archive_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for odd in (b"PK" + content, content + b"x", content + content, content[:-2] + b"\x01\x00x"):
        path.write_bytes(odd)
        with pytest.raises(REFUSED):
            check(path)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_has_replaced_a_file_is_not_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Others may replace a checkpoint after the check that it is a file; opening a pipe would never end."""
    path = tmp_path / "last.ckpt"
    make(path)
    signal.alarm(5)  # ends a test that waits for a writer
    try:
        with pytest.raises(LabError, match=r"last.ckpt: it is a (pipe|directory), not a regular file$"):
            load_archive(path)
    finally:
        signal.alarm(0)


@pytest.mark.parametrize(
    "metadata", [{"": {"assign_to_params_buffers": True}}, {"": {"version": []}}, {"": 1}, []]
)
def test_metadata_other_than_versions_is_refused(metadata: Any, path: Path) -> None:
    """With `assign_to_params_buffers`, the file's tensors would replace parameters, whatever their type."""
    weights = nn.Linear(2, 2).state_dict()
    torch.save({"state_dict": weights}, path)
    assert "state_dict" in load_archive(path)
    weights._metadata = metadata  # type: ignore[attr-defined]
    torch.save({"state_dict": weights}, path)
    with pytest.raises(LabError, match="it contains more than plain values"):
        load_archive(path)
