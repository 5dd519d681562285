"""What is known of a series before its records are read."""

import json

import numpy as np
import pytest

from attention_lab.tensorboard_plugin import AttentionRecord, encode
from attention_lab.tensorboard_plugin.description import (
    LONGEST,
    describe,
    describe_header,
    read_description,
)


def _record(text: str) -> AttentionRecord:
    return AttentionRecord(np.ones((2, 3, 1), np.float32), ["x", "y", "z"], ["a"], input=text)


@pytest.mark.parametrize("text", ["attention", "", "</script>\0\ud800", "👩" * 1000])
def test_a_record_is_described_by_its_text_and_shape(text: str) -> None:
    record = _record(text)
    content = describe(record)
    assert read_description(content) == {"input": text[:LONGEST], "shape": [2, 3, 1]}
    assert describe_header(encode(record)[0]) == content


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", {}),
        (b"\xff", {}),
        (b"null", {}),
        (b"[" * 4000, {}),
        (b" " * 5000 + b"{}", {}),
        (b'{"input": 5, "shape": [1, 2]}', {}),
        (b'{"input": "a", "shape": [1, 2, true]}', {"input": "a"}),
        (b'{"input": "a", "shape": [1, 2, -3]}', {"input": "a"}),
        (b'{"shape": [1, 2, 1e9]}', {}),
        (json.dumps({"input": "a" * 3000}).encode(), {"input": "a" * LONGEST}),
        (b'{"shape": [1, 2, 3], "more": {}}', {"shape": [1, 2, 3]}),
    ],
)
def test_anything_else_describes_nothing(content: bytes, found: dict[str, object]) -> None:
    assert read_description(content) == found
