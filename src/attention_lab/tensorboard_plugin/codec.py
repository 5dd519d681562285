"""Records as bytes: a header (JSON) and a body.

The body of version 1 has every weight, as 16 bits, unsigned, little endian. Version 2 is for long inputs, see
`tiles.py`.
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
"""The number in the body that stands for a weight of 1."""
MASKED = 65535
"""The number in the body of a cell that is masked, or whose weight is NaN or infinite."""
WHOLE = 1 << 22
"""The most weights that a record stores without reducing them to tiles."""


def encode(record: AttentionRecord, room: int = ROOM) -> tuple[bytes, bytes]:
    """The header and the body of a record.

    Up to `WHOLE` weights, each is kept to within 1/131068. Of more, some heads are kept in tiles, with the
    largest weights of each query: see `encode_tiles`. Weights outside of [0, 1] are clipped, and the header's
    `maximum` or `minimum` says how far they went.

    Args:
        record: what is to be kept.
        room: bytes of a body in tiles, before it is compressed.
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
    """The record that was written, from bytes that nobody vouches for.

    A mask that masks nothing comes back as None; masked weights come back as 0.

    Raises:
        ValueError: the bytes are no record, or one of a later version.
    """
    fields = read_header(header)
    match fields.get("version"):
        case 1:
            pass
        case 2:
            return decode_tiles(fields, body)
        case other:
            raise ValueError(f"version {parts.short(other)} of the record, this reads {VERSION} and {TILED}")
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
