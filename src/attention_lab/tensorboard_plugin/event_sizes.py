"""Estimate the memory that event files take, before TensorBoard reads them.

TensorBoard makes a Python object of every value. An empty value takes two bytes in a file and hundreds in
memory, so the size of a file says little about what it needs.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attention_lab.files.regular_files import open_regular

MOST_FIELDS = 10_000_000
"""Maximum number of events and their fields in a run's event files; a point of a curve has six fields."""
MOST_TAGS = 10_000
"""Maximum number of tags of a run."""
MOST_FILES = 1_000
"""Maximum number of event files of a run, one for each time it was resumed; they take quadratic time."""
LARGEST_FILE = 1 << 32
"""Maximum size of an event file in bytes."""
LARGEST_EVENT = 1 << 27
"""Maximum size of an event in bytes; a record has at most 16 MiB of text and 64 MiB of tiles."""
_FIELD, _KEPT = 300, 40  # most bytes of memory that a field takes, while it is read and afterwards
_COPIES = 3  # of a file's bytes, while it is read
_HEADER = struct.Struct("<QI")  # of an event: its length, and the checksum of the length
_CHECKSUM = 4  # bytes after an event
_LONGEST_NUMBER = 10  # bytes
_DEEPEST = 100  # most levels of messages, as in protobuf
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}  # wire types, and the sizes of numbers of a fixed length
_LARGEST_KEY = 0xFFFFFFFF  # of a field: its number and wire type
_TAG = 1  # the field with the tag of a value


def needed_memory(files: Iterable[Path]) -> tuple[int, int]:
    """Estimate the bytes of memory that a run's event files take, afterwards and while they are read.

    Raises:
        OSError: a file is not a regular file, or has more in it than any run writes.
    """
    size, fields = 0, 0
    tags: set[bytes] = set()
    for number, path in enumerate(files):
        if number == MOST_FILES:
            raise OSError(errno.EINVAL, f"it is one of more than {MOST_FILES:,} event files", str(path))
        for event in _events(path):
            size += len(event)
            fields += 1 + _count_fields(event, MOST_FIELDS - fields, tags)  # empty events take time, too
            if fields > MOST_FIELDS or len(tags) > MOST_TAGS:
                most = f"{MOST_FIELDS:,} values" if fields > MOST_FIELDS else f"{MOST_TAGS:,} tags"
                raise OSError(errno.EINVAL, f"it has more than {most}", str(path))
    return size + fields * _KEPT, _COPIES * size + fields * _FIELD


def _events(path: Path) -> Iterator[bytes]:
    """The events as TensorBoard reads them: up to the first whose length has a wrong checksum.

    Raises:
        OSError: the file is not a regular file or too large, or an event claims more bytes than any has, all
            of which TensorBoard would allocate.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    with open_regular(path, LARGEST_FILE) as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            if checksum != masked_crc32c(header[:8]):
                return
            if length > LARGEST_EVENT:
                raise OSError(errno.EINVAL, f"it claims to have an event of {length} bytes", str(path))
            yield file.read(length)
            file.seek(_CHECKSUM, os.SEEK_CUR)


def _count_fields(event: bytes, most: int, tags: set[bytes]) -> int:
    """The number of fields of an event, at any depth; counts no further than one more than `most`.

    Args:
        event: the event in protobuf's format; a message in it is read up to the first damaged field.
        most: the number of fields up to which it is needed.
        tags: the set to which the event's tags are added.
    """
    # Slow to import, and not needed to find the files.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    value = _messages(Summary.Value.DESCRIPTOR)
    outer: list[tuple[Mapping[int, Any], int]] = []
    kind, place, end, count = _messages(Event.DESCRIPTOR), 0, len(event), 0
    while count <= most and len(tags) <= MOST_TAGS:
        if place >= end:
            if not outer:
                break
            place = end
            kind, end = outer.pop()
            continue
        count += 1
        key, place = _number(event, place, end)
        wire = key & 7
        if wire == _VARINT:
            _, place = _number(event, place, end)
        elif wire != _BYTES:
            place += _FIXED.get(wire, 0)
        else:
            length, place = _number(event, place, end)
            number, after = (key & _LARGEST_KEY) >> 3, min(place + length, end)
            if number in kind and len(outer) < _DEEPEST:
                outer.append((kind, end))
                kind, end = _messages(kind[number]), after
                continue
            if kind is value and number == _TAG:
                tags.add(event[place:after])
            place = after
    return count


@cache
def _messages(kind: Any) -> Mapping[int, Any]:
    """The numbers and kinds of the fields of a message that are messages themselves."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _number(message: bytes, place: int, end: int) -> tuple[int, int]:
    """A number of variable length, and the place after it; the end of the message if it is damaged."""
    value = shift = 0
    for at in range(place, min(place + _LONGEST_NUMBER, end)):
        value |= (message[at] & 127) << shift
        if message[at] < 128:
            return value, at + 1
        shift += 7
    return 0, end
