"""Encode records of long inputs as tiles; `tiles.py` describes what is kept."""

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.header import Extremes, write_header
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.tensorboard_plugin.tiles import FULL, LONGEST, NONE, Codes, Floats, Head, size_of

ROOM = 8 << 20
"""Maximum size of a body in bytes, before compression."""
_ACROSS = 256  # most tiles along a side
_FEWEST, _MOST = 16, 64  # fewest and most weights kept per query
_BLOCK = 1 << 22  # weights processed at a time


def _code(weights: npt.NDArray[Any]) -> Codes:
    codes: Codes = np.rint(np.sqrt(weights) * FULL).astype(np.uint16)
    return codes


def plan(shape: tuple[int, ...], room: int) -> tuple[int, int, list[int]]:
    """The side of a tile, the number of weights kept per query, and the heads that fit in `room` bytes.

    The heads are evenly spaced, and the same ones are kept at every step of training.
    """
    count, rows, columns = shape
    side = 1
    while math.ceil(max(rows, columns) / side) > _ACROSS:
        side *= 2
    fixed = size_of(rows, columns, side, 0)
    kept = (room // count - fixed) // (4 * rows)
    kept = min(columns, max(_FEWEST, min(_MOST, kept)))
    most = max(1, min(count, room // size_of(rows, columns, side, kept)))
    return side, kept, [number * count // most for number in range(most)]


def encode_tiles(record: AttentionRecord, version: int, room: int = ROOM) -> tuple[bytes, bytes]:
    """Encode a record as a header and a body, with as many heads as there is room for.

    Raises:
        ValueError: there are more queries or keys than a record can have.
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
    tiles = {"side": side, "kept": kept, "heads": numbers, "of": count}
    shape = (len(numbers), rows, columns)
    more: dict[str, Any] = {"tiles": tiles}
    if record.heads is not None:
        more["heads"] = [record.heads[number] for number in numbers]
    header = write_header(record, version, shape, _overall(extremes), **more)
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
    return Head(*map(np.concatenate, zip(*blocks, strict=True))), _overall(extremes)


def _overall(extremes: Sequence[Extremes]) -> Extremes:
    """The extremes of several parts together."""
    low, high, lost = zip(*extremes, strict=True)
    return Extremes(min(low), max(high), sum(lost))


def _encode_rows(
    given: Floats, mask: npt.NDArray[np.bool_] | None, side: int, kept: int
) -> tuple[Head, Extremes]:
    """Encode some rows of a head: a multiple of `side`, or the last ones."""
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
    """[Q, 2] the first attended key of each query, and the one after the last; all between them count."""
    rows, columns = shape
    if mask is None:
        return np.tile(np.array([0, columns], np.uint16), (rows, 1))
    some = mask.any(axis=1)
    first = np.where(some, mask.argmax(axis=1), 0)
    last = np.where(some, columns - mask[:, ::-1].argmax(axis=1), 0)
    return np.stack([first, last], axis=1).astype(np.uint16)


def _counts(spans: Codes, side: int, columns: int, down: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[R, C] the number of each tile's cells that lie within the spans."""
    left = np.arange(0, columns, side)
    right = np.minimum(left + side, columns)
    first, last = spans[:, :1].astype(np.int64), spans[:, 1:].astype(np.int64)
    inside = np.maximum(np.minimum(last, right) - np.maximum(first, left), 0)
    return np.add.reduceat(inside, down, axis=0)


def _largest(weights: Floats, kept: int) -> tuple[Codes, Codes]:
    """[Q, kept] the keys of the largest weights above 0, in ascending order, and the weights' codes."""
    columns = weights.shape[1]
    keys = np.argpartition(weights, columns - kept, axis=1)[:, columns - kept :]
    values = np.take_along_axis(weights, keys, axis=1)
    keys = np.where(values > 0, keys, NONE)
    order = keys.argsort(axis=1)
    sorted_keys = np.take_along_axis(keys, order, axis=1).astype(np.uint16)
    return sorted_keys, _code(np.take_along_axis(values, order, axis=1))
