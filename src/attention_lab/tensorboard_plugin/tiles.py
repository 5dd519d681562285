"""Records of long inputs: some heads, as tiles, with the largest weights of each query.

8 heads with 8,192 queries and keys have 537 million weights. For each head that it keeps, a record stores

- the mean and the largest weight of each tile of `side` x `side` cells, for a view of the entire map;
- the `kept` largest weights of each query and their keys, for a view of single cells. For the other cells of
  a tile, only the mean is known;
- the entropy and the sum of each query's weights, and the first and last key that it attends to.

Weights are stored as square roots in 16 bits, so that weights of 1e-4 and more are known to within 0.2%.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin import header as parts
from attention_lab.tensorboard_plugin.record import check_gold, check_heads, check_labels

LARGEST_BODY = 64 << 20
"""Maximum size in bytes of a body that is read, uncompressed."""
LONGEST = 65535
"""Maximum number of queries, and of keys."""
NONE = 65535
"""As a key: there are no more weights. As a tile's weight: the tile is masked completely."""
FULL = 65534
"""The code of a weight of 1."""

Codes = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]


class Head(NamedTuple):
    """One head of a record.

    Attributes:
        means: `[R, C]` codes of the mean weight of each tile, `NONE` if it is masked completely.
        tops: `[R, C]` codes of the largest weight of each tile.
        measures: `[Q, 2]` entropy in nats and sum of each query's weights.
        spans: `[Q, 2]` the first key that a query attends to, and the one after the last.
        keys: `[Q, kept]` the keys of its largest weights in ascending order, then `NONE`.
        weights: `[Q, kept]` codes of these weights.
    """

    means: Codes
    tops: Codes
    measures: Floats
    spans: Codes
    keys: Codes
    weights: Codes

    def pack(self) -> bytes:
        """The bytes of all arrays in order, little endian."""
        return b"".join(one.astype(one.dtype.newbyteorder("<"), copy=False).tobytes() for one in self)


@dataclass(frozen=True, eq=False)
class TiledRecord:
    """A decoded record of a long input.

    Attributes:
        heads: the heads that were kept, by number.
        of: the original number of heads.
        shape: the shape of the weights, `[heads kept, Q, K]`.
        side: side of a tile in cells.
        queries: label of each row.
        keys: label of each column.
        texts: module, input, output and expected output.
    """

    heads: Mapping[int, Head]
    of: int
    shape: tuple[int, int, int]
    side: int
    queries: Sequence[str]
    keys: Sequence[str]
    texts: tuple[str, ...]


def value(codes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The weights that the codes stand for."""
    roots: npt.NDArray[np.float64] = codes / FULL
    return roots * roots


def size_of(rows: int, columns: int, side: int, kept: int) -> int:
    """Size of a head in bytes, before compression."""
    return 4 * math.ceil(rows / side) * math.ceil(columns / side) + rows * (8 + 4 + 4 * kept)


def decode_tiles(fields: Mapping[str, Any], body: bytes) -> TiledRecord:
    """Decode a record of a long input.

    Raises:
        ValueError: the bytes are not such a record.
    """
    count, rows, columns = _shape(fields)
    tiles = fields.get("tiles")
    if not isinstance(tiles, dict):
        raise ValueError("tiles in the header is not a JSON object")
    side, kept, of = parts.integers([tiles.get(name) for name in ("side", "kept", "of")], "tiles")
    numbers = parts.integers(tiles.get("heads"), "heads")
    if len(numbers) != count or numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < of:
        raise ValueError(f"heads must be {count} ascending indices below {of}, not {parts.short(numbers)}")
    if not 1 <= side <= LONGEST or not 1 <= kept <= columns:
        raise ValueError(f"side={side} and kept={kept} are not valid for {columns} keys")
    size = size_of(rows, columns, side, kept)
    if count * size > LARGEST_BODY:
        raise ValueError(f"the tiles take {count * size} bytes, more than {LARGEST_BODY}")
    plain = _inflated(body, count * size)
    heads = [_unpacked(plain[at * size : (at + 1) * size], rows, columns, side, kept) for at in range(count)]
    queries, keys = parts.texts(fields, "queries"), parts.texts(fields, "keys")
    check_labels(queries, keys, rows, columns)
    gold = parts.gold(fields.get("gold"))
    if gold is not None:
        check_gold(gold, rows, columns)
    if fields.get("picture") is not None or fields.get("x") is not None:
        raise ValueError("a tiled record cannot have a picture or an axis")
    parts.check_kind(fields, "sequence")
    return TiledRecord(
        heads=dict(zip(numbers, heads, strict=True)),
        of=of,
        shape=(count, rows, columns),
        side=side,
        queries=queries,
        keys=keys,
        texts=(*(parts.text(fields, name) for name in ("module", "input", "output")), parts.expected(fields)),
    )


def _shape(fields: Mapping[str, Any]) -> tuple[int, int, int]:
    shape = parts.integers(fields.get("shape"), "shape")
    if len(shape) != 3 or min(shape) < 1 or max(shape[1:]) > LONGEST:
        raise ValueError(f"shape {parts.short(shape)} is not [heads, queries, keys] up to {LONGEST}")
    check_heads(shape[0], parts.heads(fields))
    return shape[0], shape[1], shape[2]


def _inflated(body: bytes, size: int) -> bytes:
    """Decompress a body of exactly `size` bytes; no more than that is ever unpacked."""
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(body, size + 1)
    except zlib.error as error:
        raise ValueError(f"the tiles cannot be decompressed: {error}") from None
    if len(plain) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"the tiles do not have {size} bytes")
    return plain


def _unpacked(plain: bytes, rows: int, columns: int, side: int, kept: int) -> Head:
    grid = (math.ceil(rows / side), math.ceil(columns / side))
    shapes: list[tuple[str, tuple[int, int], str]] = [
        ("means", grid, "<u2"),
        ("tops", grid, "<u2"),
        ("measures", (rows, 2), "<f4"),
        ("spans", (rows, 2), "<u2"),
        ("keys", (rows, kept), "<u2"),
        ("weights", (rows, kept), "<u2"),
    ]
    arrays, start = {}, 0
    for name, shape, dtype in shapes:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(plain, dtype, count, start).reshape(shape)
        start += count * np.dtype(dtype).itemsize
    head = Head(**arrays)
    keys = head.keys.astype(np.int64)
    rising = (np.diff(keys, axis=1) > 0) | (keys[:, 1:] == NONE)
    if not rising.all() or (keys[keys != NONE] >= columns).any():
        raise ValueError("the keys of the largest weights are not in order")
    first, last = head.spans.astype(np.int64).T
    if (first > last).any() or (last > columns).any() or not np.isfinite(head.measures).all():
        raise ValueError("a query's measures are not finite, or its span of keys is out of range")
    return head
