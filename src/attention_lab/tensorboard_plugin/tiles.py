"""Records of long inputs: some heads, in tiles, with the largest weights of each query.

8 heads of 8,192 queries and keys have 537 million weights. A record of them has, of each head that it keeps,

- the mean and the largest weight of each tile of `side` x `side` cells, so that all of the map can be seen;
- the `kept` largest weights of each query and their keys, so that it can be seen in cells. Of the other cells
  of a tile the mean is known;
- the entropy and the sum of each query's weights, and the keys that it attends to, from the first to the
  last.

Weights are stored as square roots in 16 bits, so that weights from 1e-4 on are known to within 0.2%.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin import header as parts
from attention_lab.tensorboard_plugin.header import Extremes, write_header
from attention_lab.tensorboard_plugin.record import AttentionRecord, check_gold

ROOM = 8 << 20
"""Bytes of a body, before it is compressed."""
LARGEST_BODY = 64 << 20
"""Most bytes of a body that is read, before it was compressed."""
LONGEST = 65535
"""Most queries, and most keys."""
NONE = 65535
"""In the place of a key: there is no further weight. In the place of a tile's weight: all of it is masked."""

_FULL = 65534
_ACROSS = 256  # tiles of a side, at most
_FEWEST, _MOST = 16, 64  # weights of a query
_BLOCK = 1 << 22  # weights that are worked on at a time

Codes = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Head:
    """One head of a record.

    Attributes:
        means: `[R, C]` codes of the mean weight of each tile, `NONE` where all of it is masked.
        tops: `[R, C]` codes of the largest one.
        measures: `[Q, 2]` entropy in nats and sum of each query's weights.
        spans: `[Q, 2]` the first key that a query attends to, and the one after the last.
        keys: `[Q, kept]` the keys of its largest weights in their order, then `NONE`.
        weights: `[Q, kept]` codes of these weights.
    """

    means: Codes
    tops: Codes
    measures: Floats
    spans: Codes
    keys: Codes
    weights: Codes

    def pack(self) -> bytes:
        """All arrays, little endian, in their order."""
        arrays = (self.means, self.tops, self.measures, self.spans, self.keys, self.weights)
        return b"".join(one.astype(one.dtype.newbyteorder("<"), copy=False).tobytes() for one in arrays)


@dataclass(frozen=True, eq=False)
class TiledRecord:
    """A record of a long input as it was written.

    Attributes:
        heads: by number, of those that were kept.
        of: how many there were.
        shape: of all weights `[heads kept, Q, K]`.
        side: cells of a side of a tile.
        queries: label of each row.
        keys: label of each column.
        texts: module, input and output.
    """

    heads: Mapping[int, Head]
    of: int
    shape: tuple[int, int, int]
    side: int
    queries: Sequence[str]
    keys: Sequence[str]
    texts: tuple[str, str, str]


def value(codes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The weights that codes stand for."""
    roots: npt.NDArray[np.float64] = codes / _FULL
    return roots * roots


def _code(weights: npt.NDArray[Any]) -> Codes:
    codes: Codes = np.rint(np.sqrt(weights) * _FULL).astype(np.uint16)
    return codes


def plan(shape: tuple[int, ...], room: int) -> tuple[int, int, list[int]]:
    """The side of a tile, the weights kept of each query, and the heads that are kept within `room` bytes.

    Heads are evenly spaced, so that the same ones are kept at every step of a training.
    """
    count, rows, columns = shape
    side = 1
    while math.ceil(max(rows, columns) / side) > _ACROSS:
        side *= 2
    fixed = _size(rows, columns, side, 0)
    kept = (room // count - fixed) // (4 * rows)
    kept = min(columns, max(_FEWEST, min(_MOST, kept)))
    most = max(1, min(count, room // _size(rows, columns, side, kept)))
    return side, kept, [number * count // most for number in range(most)]


def _size(rows: int, columns: int, side: int, kept: int) -> int:
    """Bytes of a head."""
    return 4 * math.ceil(rows / side) * math.ceil(columns / side) + rows * (8 + 4 + 4 * kept)


def encode_tiles(record: AttentionRecord, version: int, room: int = ROOM) -> tuple[bytes, bytes]:
    """The header and the body of a record, with as many heads as have room.

    Raises:
        ValueError: more queries or keys than a record can have.
    """
    count, rows, columns = record.weights.shape
    if max(rows, columns) > LONGEST:
        raise ValueError(f"{rows} queries and {columns} keys, more than {LONGEST}: choose some of them")
    side, kept, numbers = plan(record.weights.shape, room)
    packed, extremes = [], []
    for number in numbers:
        mask = None if record.mask is None else record.mask[number]
        head, found = _encode_head(record.weights[number], mask, side, kept)
        packed.append(head.pack())
        extremes.append(found)
    low, high, lost = zip(*extremes, strict=True)
    tiles = {"side": side, "kept": kept, "heads": numbers, "of": count}
    shape = (len(numbers), rows, columns)
    header = write_header(record, version, shape, Extremes(min(low), max(high), sum(lost)), tiles=tiles)
    return header, zlib.compress(b"".join(packed), 6)


def _encode_head(
    weights: Floats, mask: npt.NDArray[np.bool_] | None, side: int, kept: int
) -> tuple[Head, Extremes]:
    rows, columns = weights.shape
    step = side * max(1, _BLOCK // (columns * side))
    blocks, extremes = [], []
    for start in range(0, rows, step):
        part = slice(start, start + step)
        block, found = _encode_rows(weights[part], None if mask is None else mask[part], side, kept)
        blocks.append(block)
        extremes.append(found)
    names = ("means", "tops", "measures", "spans", "keys", "weights")
    head = Head(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})
    low, high, lost = zip(*extremes, strict=True)
    return head, Extremes(min(low), max(high), sum(lost))


def _encode_rows(
    given: Floats, mask: npt.NDArray[np.bool_] | None, side: int, kept: int
) -> tuple[Head, Extremes]:
    """Some rows of a head, a multiple of `side`, or the last ones."""
    finite = np.isfinite(given)
    attended = finite if mask is None else mask & finite
    lost = int((~finite if mask is None else mask & ~finite).sum())
    shown = given if attended.all() else np.where(attended, given, np.float32(0))
    found = Extremes(float(shown.min()), float(shown.max()), lost)
    weights = np.clip(shown, 0, 1)
    spans = _spans(mask, given.shape)
    down, across = np.arange(0, weights.shape[0], side), np.arange(0, weights.shape[1], side)
    totals = np.add.reduceat(np.add.reduceat(weights, across, axis=1), down, axis=0)
    tops = np.maximum.reduceat(np.maximum.reduceat(weights, across, axis=1), down, axis=0)
    counts = _counts(spans, side, given.shape[1], down)
    masked = counts == 0
    means = np.where(masked, NONE, _code(totals / np.maximum(counts, 1))).astype(np.uint16)
    entropy = -(weights * np.log(np.maximum(weights, np.float32(1e-30)))).sum(axis=1)
    keys, largest = _largest(weights, kept)
    head = Head(
        means=means,
        tops=np.where(masked, NONE, _code(tops)).astype(np.uint16),
        measures=np.stack([entropy, weights.sum(axis=1)], axis=1).astype(np.float32),
        spans=spans,
        keys=keys,
        weights=largest,
    )
    return head, found


def _spans(mask: npt.NDArray[np.bool_] | None, shape: tuple[int, int]) -> Codes:
    """[Q, 2] the first attended key of each query, and the one after the last; those between them count."""
    rows, columns = shape
    if mask is None:
        return np.tile(np.array([0, columns], np.uint16), (rows, 1))
    some = mask.any(axis=1)
    first = np.where(some, mask.argmax(axis=1), 0)
    last = np.where(some, columns - mask[:, ::-1].argmax(axis=1), 0)
    return np.stack([first, last], axis=1).astype(np.uint16)


def _counts(spans: Codes, side: int, columns: int, down: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[R, C] cells of each tile that lie within the spans."""
    left = np.arange(0, columns, side)
    right = np.minimum(left + side, columns)
    first, last = spans[:, :1].astype(np.int64), spans[:, 1:].astype(np.int64)
    inside = np.maximum(np.minimum(last, right) - np.maximum(first, left), 0)
    return np.add.reduceat(inside, down, axis=0)


def _largest(weights: Floats, kept: int) -> tuple[Codes, Codes]:
    """[Q, kept] the keys of the largest weights above 0, in their order, and codes of these."""
    columns = weights.shape[1]
    keys = np.argpartition(weights, columns - kept, axis=1)[:, columns - kept :]
    values = np.take_along_axis(weights, keys, axis=1)
    keys = np.where(values > 0, keys, NONE)
    order = keys.argsort(axis=1)
    sorted_keys = np.take_along_axis(keys, order, axis=1).astype(np.uint16)
    return sorted_keys, _code(np.take_along_axis(values, order, axis=1))


def decode_tiles(fields: Mapping[str, Any], body: bytes) -> TiledRecord:
    """The record that was written.

    Raises:
        ValueError: the bytes are none.
    """
    count, rows, columns = _shape(fields)
    tiles = fields.get("tiles")
    if not isinstance(tiles, dict):
        raise ValueError("tiles in the header is no JSON object")
    side, kept, of = parts.integers({"tiles": [tiles.get(name) for name in ("side", "kept", "of")]}, "tiles")
    numbers = parts.integers(tiles, "heads")
    if len(numbers) != count or numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < of:
        raise ValueError(f"heads {parts.short(numbers)} of {of}, where there are {count}")
    if not 1 <= side <= LONGEST or not 1 <= kept <= columns:
        raise ValueError(f"tiles of {side} cells with {kept} weights of {columns} keys")
    size = _size(rows, columns, side, kept)
    if count * size > LARGEST_BODY:
        raise ValueError(f"{count * size} bytes of tiles, more than {LARGEST_BODY}")
    plain = _inflated(body, count * size)
    heads = [_unpacked(plain[at * size : (at + 1) * size], rows, columns, side, kept) for at in range(count)]
    queries, keys = parts.texts(fields, "queries"), parts.texts(fields, "keys")
    for name, labels, number in (("query", queries, rows), ("key", keys, columns)):
        if len(labels) != number or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{number} {name} labels are needed, each a text")
    gold = parts.gold(fields.get("gold"))
    if gold is not None:
        check_gold(gold, rows, columns)
    if fields.get("picture") is not None or fields.get("x") is not None:
        raise ValueError("a picture or an axis in tiles")
    parts.check_kind(fields, "sequence")
    return TiledRecord(
        heads=dict(zip(numbers, heads, strict=True)),
        of=of,
        shape=(count, rows, columns),
        side=side,
        queries=queries,
        keys=keys,
        texts=(parts.text(fields, "module"), parts.text(fields, "input"), parts.text(fields, "output")),
    )


def _shape(fields: Mapping[str, Any]) -> tuple[int, int, int]:
    shape = parts.integers(fields, "shape")
    if len(shape) != 3 or min(shape) < 1 or max(shape[1:]) > LONGEST:
        raise ValueError(f"shape {parts.short(shape)} is not [heads, queries, keys] up to {LONGEST}")
    return shape[0], shape[1], shape[2]


def _inflated(body: bytes, size: int) -> bytes:
    """The body of exactly `size` bytes; no more is ever unpacked."""
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(body, size + 1)
    except zlib.error as error:
        raise ValueError(f"the tiles cannot be unpacked: {error}") from None
    if len(plain) != size or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"tiles of other than {size} bytes")
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
        raise ValueError("keys of weights that are not in order")
    first, last = head.spans.astype(np.int64).T
    if (first > last).any() or (last > columns).any() or not np.isfinite(head.measures).all():
        raise ValueError("queries with measures or keys that cannot be")
    return head
