"""Find and read a run's TensorBoard event files."""

import errno
import logging
import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.reading import check_regular, is_utf8, matches_in, open_regular
from attention_lab.tensorboard_plugin import PLUGIN
from attention_lab.tensorboard_plugin.codec import decode
from attention_lab.tensorboard_plugin.page import Blobs

Point = tuple[int, float]
"""A step and a value."""

Sample = tuple[str, ...]
"""Input, output and expected output."""

SAMPLES = "samples"
"""The tag under which a run writes samples as a Markdown table."""
_PATTERN = "*tfevents*"
_EARLIER = "tensorboard"
_DAMAGED = 10_000  # most damaged events that are skipped
_MOST = 1 << 32  # most bytes of an event file
_LARGEST_EVENT = 1 << 27  # bytes; a record has at most 16 MiB of text and 64 MiB of tiles
_HEADER = struct.Struct("<QI")  # of an event: its length, and the checksum of the length
_CHECKSUM = 4  # bytes after an event
_MOST_SAMPLES, _LONGEST = 200, 1 << 20  # most lines and bytes of the table of samples


def event_files(folder: Path) -> list[Path]:
    """The event files in a folder, sorted."""
    return matches_in(folder, _PATTERN)


def event_folder(run: Path) -> Path:
    """The folder of a run's event files: the run's own folder, or for older runs `tensorboard` in it."""
    earlier = run / _EARLIER
    return earlier if event_files(earlier) and not event_files(run) else run


@dataclass(frozen=True)
class Log:
    """The contents of a run's event files.

    Attributes:
        curves: numbers over steps, by tag.
        records: header and body of each attention record, by tag and step.
        samples: the samples of the last step that wrote any.
    """

    curves: dict[str, list[Point]]
    records: dict[str, dict[int, Blobs]]
    samples: list[Sample]


def read_log(folder: Path) -> Log:
    """Read the event files in a folder; invalid records are left out.

    Raises:
        LabError: an event file is not a regular file, too large, or claims to have an enormous event, or
            the folder's name is not UTF-8 or like that of an event file.
    """
    files = event_files(folder)
    if not files:
        return Log({}, {}, [])
    _check_files(folder, files)
    accumulator = _load(folder)
    curves = {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }
    records: dict[str, dict[int, Blobs]] = {}
    try:
        tags = accumulator.PluginTagToContent(PLUGIN)
    except KeyError:  # no attention was logged
        tags = {}
    for tag in sorted({*tags} & {*accumulator.Tags()["tensors"]}):
        for event in accumulator.Tensors(tag):
            blobs = tuple(event.tensor_proto.string_val)
            if _is_record(blobs):
                records.setdefault(tag, {})[event.step] = (blobs[0], blobs[1])
    return Log(curves, records, _samples(accumulator))


def _check_files(folder: Path, files: Sequence[Path]) -> None:
    """Raise the LabErrors of `read_log`: TensorBoard would open the files, whatever they are."""
    if not is_utf8(str(folder)):
        raise LabError(f"{folder} contains event files, but its name is not UTF-8: rename it")
    if fnmatch(folder.name, _PATTERN):
        raise LabError(f"{folder} contains event files, but is itself named like an event file: rename it")
    for path in files:
        try:
            check_regular(path, _MOST)
            _check_lengths(path)
        except OSError as error:
            raise LabError(f"{path} cannot be read: {error.strerror}; move it out of the folder") from None


def _load(folder: Path) -> Any:
    """The EventAccumulator with the contents of the event files in a folder."""
    # Slow to import, and not needed to find the files.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)  # its warnings repeat tags, whatever they are
    kept = {"scalars": 0, "tensors": 0, "images": 1}  # 0 means all
    # Our runs write no restarts; for each, TensorBoard would look for events to remove among all before it.
    accumulator = EventAccumulator(str(folder), size_guidance=kept, purge_orphaned_data=False)
    for _ in range(_DAMAGED):
        try:
            accumulator.Reload()
            break
        except (DecodeError, LookupError, TypeError, ValueError):  # reading continues after the damaged event
            continue
    return accumulator


def _check_lengths(path: Path) -> None:
    """Raise OSError if an event claims more bytes than any has, all of which TensorBoard would allocate.

    It reads the lengths as TensorBoard does: up to the first whose checksum is wrong.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    with open_regular(path) as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            if checksum != masked_crc32c(header[:8]):
                return
            if length > _LARGEST_EVENT:
                raise OSError(errno.EINVAL, f"it claims to have an event of {length} bytes", str(path))
            file.seek(length + _CHECKSUM, os.SEEK_CUR)


def _samples(accumulator: Any) -> list[Sample]:
    tag = f"{SAMPLES}/text_summary"
    if tag not in accumulator.Tags()["tensors"]:
        return []
    written = accumulator.Tensors(tag)[-1].tensor_proto.string_val
    lines = written[0][:_LONGEST].decode("utf-8", "replace").splitlines() if written else []
    rows = [re.findall(r"(?<=\| )`([^`]*)`(?= \|)", line) for line in lines[:_MOST_SAMPLES]]
    return [tuple(row) for row in rows if len(row) == 3]


def _is_record(blobs: Sequence[bytes]) -> bool:
    try:
        header, body = blobs
        decode(header, body)
    except ValueError:
        return False
    return True
