"""Records of long inputs: small, close to the weights, and rejected if damaged."""

import json
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_lab.tensorboard_plugin import AttentionRecord, codec, decode, encode, tiling
from attention_lab.tensorboard_plugin.tiles import NONE, TiledRecord, size_of, value
from attention_lab.tensorboard_plugin.tiling import ROOM, encode_tiles, plan


def _weights(heads: int, queries: int, keys: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(heads, queries, keys)) * 3
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def _record(weights: np.ndarray, **options: Any) -> AttentionRecord:
    _, queries, keys = weights.shape
    return AttentionRecord(weights, list(map(str, range(queries))), list(map(str, range(keys))), **options)


def _tiled(record: AttentionRecord, room: int = ROOM) -> TiledRecord:
    found = decode(*encode_tiles(record, codec.TILED, room))
    assert isinstance(found, TiledRecord)
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tiles with few weights, so that tests need no long inputs."""
    monkeypatch.setattr(tiling, "_ACROSS", 4)
    monkeypatch.setattr(tiling, "_FEWEST", 3)
    monkeypatch.setattr(tiling, "_MOST", 5)
    monkeypatch.setattr(tiling, "_BLOCK", 64)  # several blocks of rows


@pytest.mark.usefixtures("small")
def test_the_largest_weights_of_each_query_are_kept() -> None:
    weights = _weights(2, 13, 17)
    record = _tiled(_record(weights))
    assert record.shape == (2, 13, 17) and record.of == 2 and record.side == 8
    for number, head in record.heads.items():
        for query, row in enumerate(weights[number]):
            keys = np.sort(np.argsort(row)[-5:])
            assert head.keys[query].tolist() == keys.tolist()
            assert np.allclose(value(head.weights[query]), row[keys], rtol=2e-3)


@pytest.mark.usefixtures("small")
def test_tiles_have_the_mean_and_the_largest_weight() -> None:
    weights = _weights(1, 13, 17)
    head = _tiled(_record(weights)).heads[0]
    for row in range(2):
        for column in range(3):
            tile = weights[0, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
            assert value(head.means[row, column]) == pytest.approx(tile.mean(), rel=2e-3)
            assert value(head.tops[row, column]) == pytest.approx(tile.max(), rel=2e-3)


@pytest.mark.usefixtures("small")
def test_entropies_and_sums_are_those_of_all_weights() -> None:
    weights = _weights(1, 9, 12) * np.float32(0.5)
    head = _tiled(_record(weights)).heads[0]
    entropy = -(weights[0] * np.log(weights[0])).sum(-1)
    assert np.allclose(head.measures, np.stack([entropy, weights[0].sum(-1)], 1), rtol=1e-5)


@pytest.mark.usefixtures("small")
def test_a_mask_is_kept_from_its_first_to_its_last_key() -> None:
    mask = np.tril(np.ones((12, 12), bool))
    mask[0] = False
    weights = _weights(1, 12, 12) * mask
    head = _tiled(_record(weights, mask=mask[None])).heads[0]
    assert head.spans.tolist() == [[0, 0], *([0, query + 1] for query in range(1, 12))]
    # side is 4: a cell of the lower triangle alone counts in the mean, and tiles above it are masked
    assert (head.means == NONE).tolist() == np.triu(np.ones((3, 3), bool), 1).tolist()
    assert value(head.means[0, 0]) == pytest.approx(weights[0, :4, :4].sum() / 9, rel=2e-3)
    assert head.keys[1].tolist() == [0, 1, NONE, NONE, NONE]


@pytest.mark.usefixtures("small")
def test_nothing_is_known_of_weights_that_are_not_finite() -> None:
    weights = _weights(1, 9, 9)
    weights[0, 3, 4] = np.nan
    header, _ = encode_tiles(_record(weights), codec.TILED)
    assert json.loads(header)["not_finite"] == 1
    assert 4 not in _tiled(_record(weights)).heads[0].keys[3]


def test_long_inputs_are_kept_in_tiles_and_short_ones_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "WHOLE", 100)
    assert isinstance(decode(*encode(_record(_weights(1, 10, 10)))), AttentionRecord)
    assert isinstance(decode(*encode(_record(_weights(1, 10, 11)))), TiledRecord)
    axis = _record(_weights(1, 10, 11), x=(np.zeros(10), np.zeros(11)))
    assert isinstance(decode(*encode(axis)), AttentionRecord)


@pytest.mark.parametrize(
    ("shape", "side", "heads"),
    [
        ((8, 2048, 2048), 8, 8),
        ((8, 8192, 8192), 32, 8),
        ((32, 8192, 8192), 32, 9),
        ((1, 65535, 65535), 256, 1),
        ((16, 3000, 200), 16, 16),
    ],
)
def test_records_stay_small(shape: tuple[int, int, int], side: int, heads: int) -> None:
    found, kept, numbers = plan(shape, ROOM)
    assert (found, len(numbers)) == (side, heads) and 16 <= kept <= 64
    size = size_of(shape[1], shape[2], side, kept)
    assert len(numbers) * size <= ROOM or len(numbers) == 1
    assert numbers[0] == 0 and len(set(np.diff(numbers))) <= 2  # evenly spaced


def test_a_record_can_have_less_room() -> None:
    header, body = encode_tiles(_record(_weights(8, 300, 300)), codec.TILED, room=200_000)
    fields = json.loads(header)["tiles"]
    assert len(fields["heads"]) < fields["of"] == 8
    assert len(zlib.decompress(body)) <= 200_000


def test_an_input_that_is_too_long_is_refused() -> None:
    weights = np.zeros((1, 1, 65536), np.float32)
    with pytest.raises(ValueError, match="1 queries and 65536 keys, more than 65535: choose some of them"):
        encode_tiles(_record(weights), codec.TILED)


def _parts() -> tuple[dict[str, Any], bytes]:
    header, body = encode_tiles(_record(_weights(2, 6, 7)), codec.TILED)
    return json.loads(header), zlib.decompress(body)


def _decode(fields: dict[str, Any], plain: bytes) -> Any:
    return decode(json.dumps(fields).encode(), zlib.compress(plain))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tiles": None}, "tiles in the header is not a JSON object"),
        ({"tiles": {}}, "tiles in the header is not a list of integers"),
        ({"tiles": {"side": 1, "kept": 7, "of": 2, "heads": [0]}}, "must be 2 ascending indices"),
        ({"tiles": {"side": 1, "kept": 7, "of": 2, "heads": [1, 0]}}, "must be 2 ascending indices"),
        ({"tiles": {"side": 1, "kept": 7, "of": 2, "heads": [0, 2]}}, "indices below 2, not"),
        ({"tiles": {"side": 0, "kept": 7, "of": 2, "heads": [0, 1]}}, "side=0 and kept=7 are not valid"),
        ({"tiles": {"side": 1, "kept": 8, "of": 2, "heads": [0, 1]}}, "kept=8 are not valid for 7 keys"),
        ({"tiles": {"side": 2, "kept": 7, "of": 2, "heads": [0, 1]}}, "the tiles do not have"),
        ({"shape": [2, 65535, 65535]}, "more than 67108864"),
        ({"shape": [2, 6, 65536]}, "up to 65535"),
        ({"shape": [0, 6, 7]}, "up to 65535"),
        ({"shape": [10_001, 6, 7]}, "10,001 heads are more than 10,000"),
        ({"queries": ["a"]}, "6 query labels"),
        ({"keys": [1] * 7}, "7 key labels"),
        ({"gold": [9] * 6}, "the last key"),
        ({"kind": "picture"}, "the header says kind 'picture'"),
        ({"picture": {}}, "a tiled record cannot have a picture or an axis"),
        ({"module": 5}, "module in the header is not text"),
        ({"heads": [1]}, "heads must be 2 indices"),
    ],
)
def test_a_header_that_does_not_fit(change: dict[str, Any], message: str) -> None:
    fields, plain = _parts()
    with pytest.raises(ValueError, match=message):
        _decode({**fields, **change}, plain)


@pytest.mark.long
def test_a_body_that_would_fill_the_memory_is_not_unpacked() -> None:
    fields, plain = _parts()
    with pytest.raises(ValueError, match=f"the tiles do not have {len(plain)} bytes"):
        _decode(fields, plain + bytes(10**8))
    for body in (b"", b"abc", zlib.compress(plain)[:-5], zlib.compress(plain) + b"more"):
        with pytest.raises(ValueError, match="tiles"):
            decode(json.dumps(fields).encode(), body)


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=4))
def test_damage_is_refused_or_harmless(at: int, damage: bytes) -> None:
    fields, plain = _parts()
    at %= len(plain) - len(damage)
    try:
        record = _decode(fields, plain[:at] + damage + plain[at + len(damage) :])
    except ValueError:
        return
    for head in record.heads.values():
        assert ((head.keys < 7) | (head.keys == NONE)).all()
        assert (head.spans[:, 0] <= head.spans[:, 1]).all() and (head.spans <= 7).all()
        assert np.isfinite(head.measures).all()
