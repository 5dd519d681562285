"""The header of a record: JSON in ASCII. A header that is read may come from anyone, so it is checked."""

import base64
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.record import AttentionRecord, Ink

LARGEST_HEADER = 1 << 24
"""Maximum size of a header in bytes."""
_LARGEST = sys.float_info.max
_SLACK = 1e-3  # low precision may move weights outside [0, 1] by this much


class Extremes(NamedTuple):
    """What colours cannot show: the smallest and largest weight, and how many are not finite."""

    low: float
    high: float
    lost: int


def write_header(
    record: AttentionRecord, version: int, shape: tuple[int, ...], found: Extremes, **more: Any
) -> bytes:
    """Encode the header of a record.

    Raises:
        ValueError: the header is too large.
    """
    header = {
        "version": version,
        "kind": record.kind,
        "shape": list(shape),
        "queries": list(record.queries),
        "keys": list(record.keys),
        "module": record.module,
        "input": record.input,
        "output": record.output,
        "gold": None if record.gold is None else record.gold.tolist(),
        "picture": None if record.picture is None else _picture_header(record.picture),
        **more,
    }
    if record.expected:
        header["expected"] = record.expected
    if record.heads is not None:
        header.setdefault("heads", list(record.heads))
    if record.x is not None:
        header["x"] = {"queries": record.x[0].tolist(), "keys": record.x[1].tolist()}
    header |= {"maximum": found.high} if found.high > 1 + _SLACK else {}
    header |= {"minimum": found.low} if found.low < -_SLACK else {}
    header |= {"not_finite": found.lost} if found.lost else {}
    encoded = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(encoded) > LARGEST_HEADER:
        raise ValueError(f"labels and texts take {len(encoded)} bytes, more than {LARGEST_HEADER}")
    return encoded


def _picture_header(picture: Ink) -> dict[str, Any]:
    height, width = picture.pixels.shape
    ink = base64.b64encode(np.ascontiguousarray(picture.pixels, np.uint8).tobytes()).decode("ascii")
    fields = {"height": height, "width": width, "cell": picture.cell, "ink": ink}
    return {**fields, "by_row": True} if picture.by_row else fields


def read_header(header: bytes) -> dict[str, Any]:
    """Decode the fields of a header.

    Raises:
        ValueError: it is too large, not ASCII, or not a JSON object.
    """
    if len(header) > LARGEST_HEADER:
        raise ValueError(f"the header has {len(header)} bytes, more than {LARGEST_HEADER}")
    try:
        fields = json.loads(header.decode("ascii"), parse_constant=no_number)
    except UnicodeDecodeError:  # the page would not read other encodings, which `json.loads` recognises
        raise ValueError("the header is not ASCII") from None
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("the header is not a JSON object")
    for name in ("maximum", "minimum", "not_finite"):
        number(fields.get(name, 0.0), name)
    return fields


def check_kind(fields: Mapping[str, Any], kind: str) -> None:
    """Raise ValueError if the header's kind differs from the kind of its contents."""
    if fields.get("kind") != kind:
        raise ValueError(
            f"the header says kind {short(fields.get('kind'))}, but the record is of kind {kind}"
        )


def no_number(text: str) -> float:
    """Raise ValueError for NaN and infinities, which JSON does not have."""
    raise ValueError(f"{text} in the header is not JSON")


def short(value: object) -> str:
    """A value, shortened for a message."""
    return repr(value)[:60]


def number(value: object, name: str) -> float:
    """Check and return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{name} in the header is not a finite number")
    return value


def integers(value: object, name: str) -> list[int]:
    """Check and return a list of integers."""
    if not isinstance(value, list) or not all(type(one) is int and abs(one) < 2**31 for one in value):
        raise ValueError(f"{name} in the header is not a list of integers")
    return value


def heads(fields: Mapping[str, Any]) -> list[int] | None:
    """The numbers of the heads, if the header has any."""
    return None if fields.get("heads") is None else integers(fields["heads"], "heads")


def text(fields: Mapping[str, Any], name: str) -> str:
    """Check and return a field that is text."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} in the header is not text")
    return value


def expected(fields: Mapping[str, Any]) -> str:
    """The correct output, if the header has one."""
    return text(fields, "expected") if "expected" in fields else ""


def texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """Check and return a field that is a list; its items are not checked."""
    value = fields.get(name)
    if not isinstance(value, list):  # the record checks the items
        raise ValueError(f"{name} in the header is not a list of texts")
    return value


def gold(value: object) -> npt.NDArray[np.int64] | None:
    """The correct keys of each query."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("gold in the header is not a list of keys")
    rows = value if any(isinstance(row, list) for row in value) else [value]
    checked = [integers(row, "gold") for row in rows]
    return np.array(checked if rows is value else checked[0], np.int64)


def picture(value: object) -> Ink | None:
    """The picture whose cells are the keys."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("picture in the header is not a JSON object")
    height, width, cell = integers([value.get(key) for key in ("height", "width", "cell")], "picture")
    pixels = np.frombuffer(base64.b64decode(text(value, "ink"), validate=True), np.uint8)
    if min(height, width) < 1 or height * width != len(pixels):
        raise ValueError(f"a picture of {height} x {width} with {len(pixels)} pixels")
    return Ink(pixels.reshape(height, width), cell, value.get("by_row") is True)


def positions(value: object) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Positions of queries and keys on an axis."""
    if value is None:
        return None
    sides = [value.get(side) for side in ("queries", "keys")] if isinstance(value, dict) else [None]
    checked = []
    for side in sides:
        if not isinstance(side, list):
            raise ValueError("x in the header has no positions of queries and keys")
        checked.append(np.array([number(one, "x") for one in side], np.float64))
    return checked[0], checked[1]
