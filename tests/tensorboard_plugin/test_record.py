"""Records of attention are read as written, and other bytes are rejected."""

import contextlib
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.tensorboard_plugin import AttentionRecord, Ink, decode, encode
from attention_lab.tensorboard_plugin.codec import MASKED
from attention_lab.tensorboard_plugin.header import LARGEST_HEADER

HOSTILE = [
    "",
    "</script><script>alert(1)</script>",
    "日本語",
    "שלום",
    "\x00",
    "\ud800",
    '"\\',
    "x" * 10_000,
    "👩‍🔬",
    "\u2028",
]

sizes = st.integers(1, 5)
labels = st.text(st.characters(), max_size=8) | st.sampled_from(HOSTILE)


@st.composite
def records(draw: st.DrawFn) -> AttentionRecord:
    """Any possible record."""
    heads, rows, columns = draw(sizes), draw(sizes), draw(sizes)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (heads, rows, columns)
    cell = draw(st.integers(1, 3))
    golds = draw(st.sampled_from([None, (rows,), (rows, 0), (rows, 2)]))
    return AttentionRecord(
        weights=random.random(shape, np.float32),
        queries=draw(st.lists(labels, min_size=rows, max_size=rows)),
        keys=draw(st.lists(labels, min_size=columns, max_size=columns)),
        module=draw(labels),
        input=draw(labels),
        output=draw(labels),
        expected=draw(labels),
        mask=random.random(shape) < 0.7 if draw(st.booleans()) else None,
        gold=None if golds is None else random.integers(-1, columns, golds),
        picture=Ink(random.integers(0, 256, (cell, cell * columns), np.uint8), cell)
        if draw(st.booleans())
        else None,
        x=(random.normal(size=rows), random.normal(size=columns)) if draw(st.booleans()) else None,
        heads=random.permutation(heads + 3)[:heads].tolist() if draw(st.booleans()) else None,
    )


def _record(**options: Any) -> AttentionRecord:
    weights = np.array([[[0.25, 0.75], [1, 0], [0.5, 0.5]]], np.float32)
    return AttentionRecord(**{"weights": weights, "queries": ["x", "y", "z"], "keys": ["a", "b"], **options})


@given(records())
def test_a_record_survives(record: AttentionRecord) -> None:
    header, body = encode(record)
    found = decode(header, body)
    attended = record.attended
    assert np.abs(found.weights - record.weights)[attended].max(initial=0) <= 0.51 / 65534
    assert not found.weights[~attended].any()
    assert np.array_equal(found.attended, attended)
    for name in ("queries", "keys", "module", "input", "output", "expected", "kind", "heads"):
        assert getattr(found, name) == getattr(record, name)
    assert (found.gold is None) == (record.gold is None)
    assert record.gold is None or np.array_equal(found.gold, record.gold)
    assert (found.picture is None) == (record.picture is None)
    if record.picture is not None:
        assert np.array_equal(found.picture.pixels, record.picture.pixels)
        assert found.picture.cell == record.picture.cell
    assert (found.x is None) == (record.x is None)
    assert record.x is None or all(map(np.array_equal, found.x, record.x))
    assert encode(found)[1] == body


@pytest.mark.parametrize("keys", [5, 1000, 50_000])
def test_the_sum_and_entropy_of_a_row_survive_whatever_its_length(keys: int) -> None:
    random = np.random.default_rng(0)
    skewed = random.dirichlet(np.full(keys, 0.3), (1, 2))
    weights = np.concatenate([np.full((1, 1, keys), 1 / keys), skewed, np.eye(1, keys)[None]], axis=1)
    mask = random.random((1, 4, keys)) < 0.9
    mask[..., 0] = True
    weights = np.where(mask, weights, 0).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    labels = [""] * keys
    found = decode(*encode(AttentionRecord(weights, labels[:4], labels, mask=mask)))
    assert np.abs(found.weights - weights).max() <= 1.01 / 65534
    assert np.array_equal(found.attended, mask) and (found.weights >= 0).all()
    assert found.weights.sum(-1, dtype=float) == pytest.approx(np.ones((1, 4)), abs=4e-4)

    def entropy(one: np.ndarray) -> np.ndarray:
        return -np.where(one > 0, one * np.log(np.maximum(one, 1e-30)), 0).sum(-1)

    assert entropy(found.weights) == pytest.approx(entropy(weights), rel=0.02, abs=1e-3)


def test_the_bytes_are_those_that_the_page_reads() -> None:
    mask = np.array([[[True, True], [True, False], [True, True]]])
    header, body = encode(
        _record(mask=mask, gold=np.array([1, 0, -1]), module="decoder", input="ab", output="xy")
    )
    assert list(np.frombuffer(body, "<u2")) == [16384, 49150, 65534, MASKED, 32767, 32767]
    assert json.loads(header) == {
        "version": 1,
        "kind": "sequence",
        "shape": [1, 3, 2],
        "queries": ["x", "y", "z"],
        "keys": ["a", "b"],
        "module": "decoder",
        "input": "ab",
        "output": "xy",
        "gold": [1, 0, -1],
        "picture": None,
    }


def test_the_header_of_a_picture_and_of_an_axis() -> None:
    drawn = json.loads(encode(_record(picture=Ink(np.array([[0, 255]], np.uint8), 1)))[0])
    assert (drawn["kind"], drawn["picture"]) == (
        "picture",
        {"height": 1, "width": 2, "cell": 1, "ink": "AP8="},
    )
    encoded = encode(_record(x=(np.array([0.5, 1, 1e300]), np.array([-1e300, 3]))))
    axis = json.loads(encoded[0])
    assert (axis["kind"], axis["x"]) == ("regression", {"queries": [0.5, 1, 1e300], "keys": [-1e300, 3]})
    assert decode(*encoded).x[1].tolist() == [-1e300, 3]


@pytest.mark.parametrize(
    ("weight", "number", "kept"),
    [
        (1.25, 65534, {"maximum": 1.25}),
        (-0.5, 0, {"minimum": -0.5}),
        (2.0**100, 65534, {"maximum": 2.0**100}),
        (1.00001, 65534, {}),  # a sum in low precision
        (float("nan"), MASKED, {"not_finite": 1}),
        (float("-inf"), MASKED, {"not_finite": 1}),
    ],
)
def test_what_is_no_weight_is_told(weight: float, number: int, kept: dict[str, float]) -> None:
    weights = np.array([[[weight, 0.5]]], np.float32)
    header, body = encode(AttentionRecord(weights, ["x"], ["a", "b"]))
    assert np.frombuffer(body, "<u2").tolist() == [number, 32767]
    extra = {name: json.loads(header).get(name) for name in ("maximum", "minimum", "not_finite")}
    assert {name: value for name, value in extra.items() if value is not None} == kept
    decode(header, body)


def test_a_masked_cell_may_hold_anything() -> None:
    weights = np.array([[[np.nan, 1]]], np.float32)
    header, _ = encode(AttentionRecord(weights, ["x"], ["a", "b"], mask=np.array([[[False, True]]])))
    assert "not_finite" not in json.loads(header)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones((3, 2), np.float32)}, r"\[heads, queries, keys\], not \(3, 2\)"),
        ({"weights": np.ones((0, 3, 2), np.float32)}, r"not \(0, 3, 2\)"),
        ({"queries": ["x"]}, "need 3 query labels"),
        ({"keys": ["a", 5]}, "need 2 key labels"),
        ({"mask": np.ones((3, 2), bool)}, "mask"),
        ({"gold": np.array([0, 1])}, "for 3 queries"),
        ({"gold": np.array([0, 1, 2])}, "to 1, the last key"),
        ({"gold": np.array([[0], [1], [-2]])}, "from -1"),
        ({"picture": Ink(np.zeros((2, 3), np.uint8), 2)}, "whole cells of 2 pixels"),
        ({"picture": Ink(np.zeros((2, 2), np.uint8), 0)}, "whole cells of 0 pixels"),
        ({"picture": Ink(np.zeros((2, 2), np.uint8), 1)}, "does not have 2 cells"),
        ({"x": (np.zeros(2), np.zeros(2))}, "3 query and 2 key positions"),
        ({"heads": [0, 1]}, r"heads must be 1 indices from 0, not \[0, 1\]"),
        ({"heads": [-1]}, "heads must be 1 indices"),
        ({"x": (np.zeros(3), np.array([0, np.inf]))}, "all finite"),
        ({"weights": np.ones((10_001, 3, 2), np.float32)}, "10,001 heads are more than 10,000: choose some"),
    ],
)
def test_parts_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        _record(**options)
    assert "\n" not in str(error.value)


def test_a_header_has_a_limit() -> None:
    with pytest.raises(ValueError, match="labels and texts take"):
        encode(_record(input="日" * (LARGEST_HEADER // 6 + 1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "the record has version 3, but this program reads 1 and 2"),
        ({"version": 2}, "tiles in the header is not a JSON object"),
        ({"version": None}, "version None"),
        ({"tiles": []}, "tiles in the header of version 1"),
        ({"shape": [1, 3]}, "shape"),
        ({"shape": [1, 3, 2**40]}, "not a list of integers"),
        ({"shape": [1, 30, 2]}, "does not fit 12 bytes"),
        ({"shape": [-1, -3, 2]}, "does not fit 12 bytes"),
        ({"shape": [0, 3, 2]}, "does not fit 12 bytes"),
        ({"shape": [True, 3, 2]}, "not a list of integers"),
        ({"queries": "xyz"}, "queries in the header is not a list"),
        ({"queries": ["x", "y", None]}, "query labels"),
        ({"keys": {}}, "keys in the header is not a list"),
        ({"input": None}, "input in the header is not text"),
        ({"gold": [0, 1]}, "for 3 queries"),
        ({"gold": [[0], [1, 0], [0]]}, "inhomogeneous"),
        ({"gold": [[0], 1, [0]]}, "gold in the header"),
        ({"gold": 3}, "not a list of keys"),
        ({"gold": [0.5, 0, 0]}, "not a list of integers"),
        ({"kind": "picture"}, "the header says kind 'picture'"),
        ({"picture": [1]}, "not a JSON object"),
        ({"picture": {"height": 10**6, "width": 10**6, "cell": 1, "ink": ""}}, "with 0 pixels"),
        ({"picture": {"height": -1, "width": -2, "cell": 1, "ink": "AP8="}}, "with 2 pixels"),
        ({"picture": {"height": 1, "width": 2, "cell": 1, "ink": "ä"}}, "ASCII"),
        ({"x": {"queries": [0, 1, 2]}}, "no positions of queries and keys"),
        ({"x": {"queries": [0, 1, "2"], "keys": [0, 1]}}, "finite number"),
        ({"x": {"queries": [0, 1, 10**400], "keys": [0, 1]}}, "finite number"),
        ({"maximum": "big"}, "maximum"),
        ({"heads": [0, 1]}, "heads must be 1 indices"),
        ({"heads": "ab"}, "heads in the header is not a list of integers"),
    ],
)
def test_a_header_that_is_none(change: dict[str, Any], message: str) -> None:
    header, body = encode(_record())
    with pytest.raises(ValueError, match=message):
        decode(json.dumps({**json.loads(header), **change}).encode(), body)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{",
        b'{"version":NaN}',
        b"[" * 100_000,
        b"9" * 5000,
        bytes(LARGEST_HEADER + 1),
    ],
    ids=lambda header: f"{header[:20]!r}",
)
def test_bytes_that_are_no_header(header: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(header, b"")


def test_a_header_has_the_encoding_that_the_page_reads() -> None:
    header, body = encode(_record())
    with pytest.raises(ValueError, match=r"^the header is not ASCII$"):
        decode(header.decode().encode("utf-16"), body)


@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    header, body = encode(dataclasses.replace(_record(), gold=np.array([0, 1, -1])))
    at = data.draw(st.integers(0, len(header)))
    damaged = header[:at] + data.draw(st.binary(max_size=4)) + header[at + data.draw(st.integers(0, 4)) :]
    with contextlib.suppress(ValueError):
        assert isinstance(decode(damaged, body), AttentionRecord)
    with pytest.raises(ValueError, match=r"."):
        decode(damaged, body[: data.draw(st.integers(0, len(body) - 1))])
