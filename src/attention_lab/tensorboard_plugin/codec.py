"""Encode records as bytes: a header (JSON) and a body.

In version 1, the body holds every weight as an unsigned 16-bit integer, little endian. Version 2 is for long
inputs; see `tiles.py`.
"""

import math

import numpy as np

from attention_lab.tensorboard_plugin import header as parts
from attention_lab.tensorboard_plugin.header import Extremes, read_header, write_header
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.tensorboard_plugin.tiles import TiledRecord, decode_tiles
from attention_lab.tensorboard_plugin.tiling import ROOM, encode_tiles

VERSION, TILED = 1, 2
FULL = 65534
"""The code of a weight of 1."""
MASKED = 65535
"""The code of a cell that is masked, or whose weight is NaN or infinite."""
WHOLE = 1 << 22
"""The largest number of weights that a record stores without reducing them to tiles."""


def encode(record: AttentionRecord, room: int = ROOM) -> tuple[bytes, bytes]:
    """Encode a record as a header and a body.

    Up to `WHOLE` weights are stored one by one, to within 1/131068. If there are more, some heads are stored
    as tiles with the largest weights of each query; see `encode_tiles`. Weights outside [0, 1] are clipped,
    and the header's `maximum` or `minimum` gives the most extreme one.

    Args:
        record: the record.
        room: maximum size in bytes of a body with tiles, before compression.
    """
    if record.weights.size > WHOLE and record.kind == "sequence":
        return encode_tiles(record, TILED, room)
    good = record.attended & np.isfinite(record.weights)
    weights = np.where(good, record.weights, 0)
    codes = np.rint(np.clip(weights, 0, 1) * FULL).astype("<u2")
    codes[~good] = MASKED
    lost = int((record.attended & ~good).sum())
    found = Extremes(float(weights.min()), float(weights.max()), lost)
    return write_header(record, VERSION, record.weights.shape, found), codes.tobytes()


def decode(header: bytes, body: bytes) -> AttentionRecord | TiledRecord:
    """Decode a record from bytes that may come from anybody.

    A mask that masks nothing becomes None, and masked weights become 0.

    Raises:
        ValueError: the bytes are not a record, or one of a later version.
    """
    fields = read_header(header)
    match fields.get("version"):
        case 1:
            pass
        case 2:
            return decode_tiles(fields, body)
        case other:
            raise ValueError(
                f"the record has version {parts.short(other)}, but this program reads {VERSION} and {TILED}"
            )
    shape = parts.integers(fields, "shape")
    if len(shape) != 3 or min(shape) < 1 or 2 * math.prod(shape) != len(body):
        raise ValueError(f"shape {parts.short(shape)} does not fit {len(body)} bytes of weights")
    codes = np.frombuffer(body, "<u2").reshape(shape)
    attended = codes != MASKED
    record = AttentionRecord(
        weights=np.where(attended, codes / np.float32(FULL), np.float32(0)),
        queries=parts.texts(fields, "queries"),
        keys=parts.texts(fields, "keys"),
        module=parts.text(fields, "module"),
        input=parts.text(fields, "input"),
        output=parts.text(fields, "output"),
        mask=None if attended.all() else attended,
        gold=parts.gold(fields.get("gold")),
        picture=parts.picture(fields.get("picture")),
        x=parts.positions(fields.get("x")),
        heads=parts.heads(fields),
    )
    parts.check_kind(fields, record.kind)
    return record
