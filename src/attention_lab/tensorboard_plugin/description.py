"""A short description of a series, written with its first event, so that listing it needs no record."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from attention_lab.tensorboard_plugin.record import AttentionRecord

LONGEST = 200
"""Maximum number of characters kept of the example's text."""
_LARGEST = 4096  # most bytes of a description
_UNNAMED = ("attention", "layers", "_orig_mod")  # the last is a compiled module's own


def describe(record: AttentionRecord) -> bytes:
    """The text of the example and the shape of its weights, as JSON."""
    return _encoded(record.input, list(record.weights.shape))


def describe_header(header: bytes) -> bytes:
    """The same, from the header of a record that can be decoded."""
    fields = json.loads(header)
    return _encoded(fields["input"], fields["shape"])


def _encoded(text: str, shape: list[int]) -> bytes:
    return json.dumps({"input": text[:LONGEST], "shape": shape}, separators=(",", ":")).encode("ascii")


def read_description(content: bytes) -> dict[str, Any]:
    """`{"input": text, "shape": [heads, queries, keys]}`; missing or invalid entries are left out."""
    if not 0 < len(content) <= _LARGEST:
        return {}
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(fields, dict):
        return {}
    found: dict[str, Any] = {}
    text, shape = fields.get("input"), fields.get("shape")
    if isinstance(text, str):
        found["input"] = text[:LONGEST]
    if (
        isinstance(shape, list)
        and len(shape) == 3
        and all(type(one) is int and 0 < one < 2**31 for one in shape)
    ):
        found["shape"] = shape
    return found


def readable_names(modules: Iterable[str]) -> dict[str, str]:
    """The readable name of each module; those that would get the same one keep their own."""
    names = {module: readable(module) for module in modules}
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    return {module: module if name in shared else name for module, name in names.items()}


def readable(module: str) -> str:
    """A readable name for an attention's place: `encoder.layers.0.attention` becomes `encoder layer 1`."""
    # The list that a layer is in says no more than its number.
    named = re.sub(r"(?<![^.])(layer|layers|block|blocks|h)\.(?=\d+(\.|$))", "", module)
    parts = [part for part in named.split(".") if part not in _UNNAMED]
    return " ".join(f"layer {int(part) + 1}" if part.isdigit() else part for part in parts) or "attention"
