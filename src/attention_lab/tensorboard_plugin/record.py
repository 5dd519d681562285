"""What is kept of one attention on one example: the source of the tab, of the report and of the pictures.

Written, a record is a header (JSON, ASCII) and a body (a weight is 16 bits, unsigned, little endian).
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Kind = Literal["sequence", "picture", "regression"]

VERSION = 1
FULL = 65534
"""The number in the body that stands for a weight of 1."""
MASKED = 65535
"""The number in the body of a cell that is masked, or whose weight is NaN or infinite."""
LARGEST_HEADER = 1 << 24
"""Most bytes of a header."""
_SLACK = 1e-3  # by which sums of low precision leave [0, 1]


class Ink(NamedTuple):
    """The picture that the keys are cells of, counted down each column, the left one first.

    Attributes:
        pixels: `[height, width]` of 8 bits, 0 is paper and 255 ink.
        cell: pixels of a side of a cell.
    """

    pixels: npt.NDArray[np.uint8]
    cell: int


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The weights of one attention module on one example, and what is needed to read them.

    Args:
        weights: `[H, Q, K]` float, from 0 to 1; NaN and infinite ones can be told from 0.
        queries: label of each of the Q rows.
        keys: label of each of the K columns.
        module: the place of the attention in the model.
        input: the example as text.
        output: what the model made of it.
        mask: bool `[H, Q, K]`, True = attended; None if all are.
        gold: `[Q]` or `[Q, G]` the right keys of each query, -1 where there is none; None if unknown.
        picture: what the keys are cells of, where the input is a picture.
        x: positions of the queries `[Q]` and of the keys `[K]`, where they are numbers on one axis.

    Raises:
        ValueError: shapes that do not fit each other, gold that is no key, positions that are not finite.
    """

    weights: npt.NDArray[np.float32]
    queries: Sequence[str]
    keys: Sequence[str]
    module: str = ""
    input: str = ""
    output: str = ""
    mask: npt.NDArray[np.bool_] | None = None
    gold: npt.NDArray[np.int64] | None = None
    picture: Ink | None = None
    x: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or 0 in self.weights.shape:
            raise ValueError(f"weights are [heads, queries, keys], not of shape {self.weights.shape}")
        _, rows, columns = self.weights.shape
        for name, labels, size in (("query", self.queries, rows), ("key", self.keys, columns)):
            if len(labels) != size or not all(isinstance(label, str) for label in labels):
                raise ValueError(f"weights {self.weights.shape} need {size} {name} labels, each a text")
        if self.mask is not None and self.mask.shape != self.weights.shape:
            raise ValueError(f"mask {self.mask.shape} does not fit weights {self.weights.shape}")
        if self.gold is not None:
            _check_gold(self.gold, rows, columns)
        if self.picture is not None:
            _check_picture(self.picture, columns)
        if self.x is not None:
            shapes = tuple(part.shape for part in self.x)
            if shapes != ((rows,), (columns,)) or not all(np.isfinite(part).all() for part in self.x):
                raise ValueError(f"x is {rows} query and {columns} key positions, all finite, not {shapes}")

    @property
    def kind(self) -> Kind:
        """How it is best shown: over a picture, over an axis, or as a map of labels."""
        if self.picture is not None:
            return "picture"
        return "sequence" if self.x is None else "regression"

    @property
    def attended(self) -> npt.NDArray[np.bool_]:
        """[H, Q, K] bool: what the mask leaves."""
        return np.ones(self.weights.shape, bool) if self.mask is None else self.mask


def _check_gold(gold: npt.NDArray[np.int64], rows: int, columns: int) -> None:
    if gold.ndim not in (1, 2) or len(gold) != rows:
        raise ValueError(f"gold is [Q] or [Q, G] of {rows} queries, not of shape {gold.shape}")
    if (gold >= columns).any() or (gold < -1).any():
        raise ValueError(f"gold is from -1 (none) to {columns - 1}, the last key")


def _check_picture(picture: Ink, cells: int) -> None:
    shape, side = picture.pixels.shape, picture.cell
    if side < 1 or len(shape) != 2 or any(size % side for size in shape):
        raise ValueError(f"a picture {shape} is not of whole cells of {side} pixels")
    if (shape[0] // side) * (shape[1] // side) != cells:
        raise ValueError(f"a picture {shape} of cells of {side} pixels has not the {cells} cells of the keys")


def encode(record: AttentionRecord) -> tuple[bytes, bytes]:
    """The header and the body of a record; a weight is kept to within 1/131068.

    Weights outside of [0, 1] are clipped, and the header's `maximum` or `minimum` says how far they went.
    """
    good = record.attended & np.isfinite(record.weights)
    weights = np.where(good, record.weights, 0)
    codes = np.rint(np.clip(weights, 0, 1) * FULL).astype("<u2")
    codes[~good] = MASKED
    header = {
        "version": VERSION,
        "kind": record.kind,
        "shape": list(record.weights.shape),
        "queries": list(record.queries),
        "keys": list(record.keys),
        "module": record.module,
        "input": record.input,
        "output": record.output,
        "gold": None if record.gold is None else record.gold.tolist(),
        "picture": None if record.picture is None else _picture_header(record.picture),
    }
    if record.x is not None:
        header["x"] = {"queries": record.x[0].tolist(), "keys": record.x[1].tolist()}
    low, high = float(weights.min()), float(weights.max())
    header |= {"maximum": high} if high > 1 + _SLACK else {}
    header |= {"minimum": low} if low < -_SLACK else {}
    lost = int((record.attended & ~good).sum())
    header |= {"not_finite": lost} if lost else {}
    encoded = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(encoded) > LARGEST_HEADER:
        raise ValueError(f"labels and texts of {len(encoded)} bytes, more than {LARGEST_HEADER}")
    return encoded, codes.tobytes()


def _picture_header(picture: Ink) -> dict[str, Any]:
    height, width = picture.pixels.shape
    ink = base64.b64encode(np.ascontiguousarray(picture.pixels, np.uint8).tobytes()).decode("ascii")
    return {"height": height, "width": width, "cell": picture.cell, "ink": ink}


def decode(header: bytes, body: bytes) -> AttentionRecord:
    """The record that was written, from bytes that nobody vouches for.

    A mask that masks nothing comes back as None; masked weights come back as 0.

    Raises:
        ValueError: the bytes are no record, or one of a later version.
    """
    if len(header) > LARGEST_HEADER:
        raise ValueError(f"a header of {len(header)} bytes, more than {LARGEST_HEADER}")
    try:
        fields = json.loads(header, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("the header is no JSON object")
    if fields.get("version") != VERSION:
        raise ValueError(f"version {_short(fields.get('version'))} of the record, this reads {VERSION}")
    shape = _integers(fields, "shape")
    if len(shape) != 3 or min(shape) < 1 or 2 * math.prod(shape) != len(body):
        raise ValueError(f"shape {_short(shape)} does not fit {len(body)} bytes of weights")
    codes = np.frombuffer(body, "<u2").reshape(shape)
    attended = codes != MASKED
    record = AttentionRecord(
        weights=np.where(attended, codes / np.float32(FULL), np.float32(0)),
        queries=_texts(fields, "queries"),
        keys=_texts(fields, "keys"),
        module=_text(fields, "module"),
        input=_text(fields, "input"),
        output=_text(fields, "output"),
        mask=None if attended.all() else attended,
        gold=_gold(fields.get("gold")),
        picture=_picture(fields.get("picture")),
        x=_positions(fields.get("x")),
    )
    if fields.get("kind") != record.kind:
        raise ValueError(f"a record of kind {_short(fields.get('kind'))} with what makes a {record.kind}")
    for name in ("maximum", "minimum", "not_finite"):
        _number(fields.get(name, 0.0), name)
    return record


def _no_number(text: str) -> float:
    raise ValueError(f"{text} in the header is no JSON")


def _short(value: object) -> str:
    return repr(value)[:60]


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**63:
        raise ValueError(f"{name} in the header is not of finite numbers")
    return value


def _integers(fields: Mapping[str, Any], name: str) -> list[int]:
    value = fields.get(name)
    if not isinstance(value, list) or not all(type(one) is int and abs(one) < 2**31 for one in value):
        raise ValueError(f"{name} in the header is no list of integers")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} in the header is no text")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    value = fields.get(name)
    if not isinstance(value, list):  # the record looks at its items
        raise ValueError(f"{name} in the header is no list of texts")
    return value


def _gold(value: object) -> npt.NDArray[np.int64] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("gold in the header is no list of keys")
    rows = value if any(isinstance(row, list) for row in value) else [value]
    checked = [_integers({"gold": row}, "gold") for row in rows]
    return np.array(checked if rows is value else checked[0], np.int64)


def _picture(value: object) -> Ink | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("picture in the header is no JSON object")
    height, width, cell = _integers(
        {"picture": [value.get(key) for key in ("height", "width", "cell")]}, "picture"
    )
    pixels = np.frombuffer(base64.b64decode(_text(value, "ink"), validate=True), np.uint8)
    if min(height, width) < 1 or height * width != len(pixels):
        raise ValueError(f"a picture of {height} x {width} with {len(pixels)} pixels")
    return Ink(pixels.reshape(height, width), cell)


def _positions(value: object) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    if value is None:
        return None
    sides = [value.get(side) for side in ("queries", "keys")] if isinstance(value, dict) else [None]
    checked = []
    for side in sides:
        if not isinstance(side, list):
            raise ValueError("x in the header has no positions of queries and keys")
        checked.append(np.array([_number(one, "x") for one in side], np.float64))
    return checked[0], checked[1]
