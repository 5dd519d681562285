"""Encode records as bytes: a header (JSON) and a body.

In version 1, the body holds every weight as an unsigned 16-bit integer, little endian. Version 2 is for long
inputs; see `tiles.py`.
"""

import math

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin import header as parts
from attention_lab.tensorboard_plugin.header import Extremes, read_header, write_header
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.tensorboard_plugin.tiles import FULL, TiledRecord, decode_tiles
from attention_lab.tensorboard_plugin.tiling import ROOM, encode_tiles

VERSION, TILED = 1, 2
MASKED = 65535
"""The code of a cell that is masked, or whose weight is NaN or infinite."""
_MOST_OFF = 16  # codes by which the sum of a row may be wrong: too few for the three digits that are shown
WHOLE = 1 << 22
"""The largest number of weights that a record stores without reducing them to tiles."""


def encode(record: AttentionRecord, room: int = ROOM) -> tuple[bytes, bytes]:
    """Encode a record as a header and a body.

    Up to `WHOLE` weights are stored one by one, to within 1/131068; in long rows, whose rounding errors would
    add up, to within 1/65534, so that the sum of the row stays correct. If there are more, some heads
    are stored as tiles with the largest weights of each query; see `encode_tiles`. Weights outside [0, 1] are
    clipped, and the header's `maximum` or `minimum` gives the most extreme one.

    Args:
        record: the record.
        room: maximum size in bytes of a body with tiles, before compression.
    """
    if record.weights.size > WHOLE and record.kind == "sequence":
        return encode_tiles(record, TILED, room)
    good = record.attended & np.isfinite(record.weights)
    weights = np.where(good, record.weights, 0)
    codes = _codes(np.clip(weights, 0, 1))
    codes[~good] = MASKED
    lost = int((record.attended & ~good).sum())
    found = Extremes(float(weights.min()), float(weights.max()), lost)
    return write_header(record, VERSION, record.weights.shape, found), codes.tobytes()


def _codes(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The nearest codes, except in rows whose sum would be wrong: these are rounded cumulatively."""
    codes = np.rint(weights * FULL).astype("<u2")
    missing = codes.sum(-1, dtype=np.int64) - weights.sum(-1, dtype=np.float64) * FULL
    wrong = np.abs(missing) > _MOST_OFF
    sums = np.cumsum(weights[wrong], axis=-1, dtype=np.float64)
    codes[wrong] = np.diff(np.rint(sums * FULL), axis=-1, prepend=0)
    return codes


def decode(header: bytes, body: bytes) -> AttentionRecord | TiledRecord:
    """Decode a record from bytes that may come from anyone.

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
    if "tiles" in fields:  # the page would decompress the body, to any size
        raise ValueError("tiles in the header of version 1, whose weights are not tiles")
    shape = parts.integers(fields.get("shape"), "shape")
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
        expected=parts.expected(fields),
        mask=None if attended.all() else attended,
        gold=parts.gold(fields.get("gold")),
        picture=parts.picture(fields.get("picture")),
        x=parts.positions(fields.get("x")),
        heads=parts.heads(fields),
    )
    parts.check_kind(fields, record.kind)
    return record
