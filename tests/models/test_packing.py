"""A packed encoder gives the values and gradients of a padded one, whatever stands in the padding."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from toys import toy_encoder

from attention_lab.attention import (
    Additive,
    Band,
    Entmax15,
    Gaussian,
    Linear,
    LocalP,
    Location,
    Mechanism,
    MultiHead,
    QueryFree,
    ScaledDot,
    Softmax,
    lengths_mask,
    recording,
)
from attention_lab.attention.fast import packed
from attention_lab.attention.fast.packed import make_packing
from attention_lab.attention.positions import POSITIONS
from attention_lab.models.parts import encoder as encoder_file

MECHANISMS = (
    Mechanism(ScaledDot),
    Mechanism(Additive),
    Mechanism(Gaussian),
    Mechanism(Linear),
    Mechanism(Location),
    Mechanism(QueryFree),
    Mechanism(ScaledDot, window=partial(Band, width=1)),
    Mechanism(ScaledDot, window=LocalP),
    Mechanism(ScaledDot, normalizer=Entmax15),
)
WAYS = ("padded", "together", "apart")


@contextmanager
def _way(way: str) -> Iterator[None]:
    """Make encoders take one path, whichever is faster."""
    long = 0 if way == "apart" else 10**9
    with (
        patch.object(packed, "SHARE", 0.0),
        patch.object(packed, "SAVED", 0),
        patch.object(packed, "LONG", long),
    ):
        if way != "padded":
            yield
            return
        with patch.object(encoder_file, "make_packing", lambda mask, size: None):
            yield


def _all(encoder: nn.Module, x: Tensor, lengths: Tensor, weight: Tensor) -> list[Tensor]:
    """The output and all gradients."""
    x = x.detach().requires_grad_()
    encoder.zero_grad()
    output = encoder(x, lengths)
    (output * weight).sum().backward()
    assert x.grad is not None
    return [output.detach(), x.grad, *(p.grad for p in encoder.parameters() if p.grad is not None)]


batches = st.integers(2, 9).flatmap(
    lambda length: st.tuples(st.just(length), st.lists(st.integers(1, length), min_size=1, max_size=4))
)


@settings(max_examples=25)
@given(
    batch=batches,
    mechanism=st.sampled_from(MECHANISMS),
    positions=st.sampled_from(list(POSITIONS)),
    causal=st.booleans(),
    poison=st.sampled_from([0.0, 1e9, float("inf"), float("nan")]),
    seed=st.integers(0, 99),
)
def test_packed_equals_padded_and_each_alone(
    batch: tuple[int, list[int]],
    mechanism: Mechanism,
    positions: str,
    causal: bool,
    poison: float,
    seed: int,
) -> None:
    length, counts = batch
    lengths = torch.tensor(counts)
    encoder = toy_encoder(mechanism, seed=seed, positions=positions, causal=causal)
    x = torch.randn(len(counts), length, 8, dtype=torch.float64)
    weight = torch.randn_like(x)
    visible = lengths_mask(lengths, length).mT
    alone = [
        encoder(one[None, :count], torch.tensor([count]))[0] for one, count in zip(x, counts, strict=True)
    ]
    x = x.masked_fill(~visible, poison)
    found = {}
    for way in WAYS:
        with _way(way):
            found[way] = _all(encoder, x, lengths, weight)
        output, gradient = found[way][:2]
        assert (output.masked_select(~visible) == 0).all()
        assert (gradient.masked_select(~visible) == 0).all()
        for row, expected in zip(output, alone, strict=True):
            assert torch.allclose(row[: len(expected)], expected, atol=1e-9)
    for way in WAYS[1:]:
        for one, other in zip(found[way], found["padded"], strict=True):
            assert torch.allclose(one, other, atol=1e-8, rtol=1e-8)


class _Share(Softmax):
    """A normaliser that counts all keys, padding too."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(scores, mask) / scores.shape[-1]


class _Largest(nn.Module):
    """A pooling in which a key of weight zero counts, if all other values are negative."""

    def forward(self, weights: Tensor, value: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * value.unsqueeze(-3)).amax(-2)


@pytest.mark.parametrize("parts", [{"normalizer": _Share}, {"pooling": _Largest}])
def test_parts_in_which_padding_counts_get_it(parts: dict[str, Any]) -> None:
    encoder = toy_encoder(Mechanism(ScaledDot, **parts), seed=0)
    x, lengths = torch.randn(3, 7, 8, dtype=torch.float64), torch.tensor([7, 2, 4])
    found = []
    for way in WAYS:
        with _way(way):
            found.append(encoder(x, lengths).masked_fill(~lengths_mask(lengths, 7).mT, 0.0))
    assert torch.allclose(found[0], found[1])
    assert torch.allclose(found[0], found[2])


@settings(max_examples=20)
@given(batch=batches, size=st.integers(1, 3))
def test_packing_takes_the_real_rows_and_puts_them_back(batch: tuple[int, list[int]], size: int) -> None:
    length, counts = batch
    mask = lengths_mask(torch.tensor(counts), length)
    x = torch.randn(len(counts), length, size)
    with _way("apart"):
        packing = make_packing(mask, size)
    assert packing is not None
    rows = packing.pack(x)
    expected = [row[:count] for row, count in zip(x, counts, strict=True)]
    assert torch.equal(rows, torch.cat(expected))
    assert torch.equal(packing.unpack(rows), x * mask.mT)
    for part, one in zip(packing.split(rows), expected, strict=True):
        assert torch.equal(part[0], one)


def test_an_empty_sequence_is_no_sequence() -> None:
    encoder = toy_encoder()
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    found = []
    for way in WAYS:
        with _way(way):
            found.append(encoder(x, torch.tensor([0, 3, 0])))
    assert torch.allclose(found[0], found[1])
    assert torch.allclose(found[0], found[2])
    assert (found[2][[0, 2]] == 0).all()
    assert (encoder(x, torch.zeros(3, dtype=torch.long)) == 0).all()


def test_a_packing_has_its_own_mask() -> None:
    mask = lengths_mask(torch.tensor([100, 10]), 100)
    packing = make_packing(mask, 64)
    assert packing is not None
    attention, x = MultiHead(Mechanism(ScaledDot), 64, 2), torch.randn(2, 100, 64)
    with pytest.raises(ValueError, match="a packing has its own mask"):
        attention(packing.pack(x), mask, packing=packing)
    torch.testing.assert_close(
        packing.unpack(attention(packing.pack(x), packing=packing)) * mask.mT, attention(x, mask) * mask.mT
    )


def test_it_is_packed_where_that_pays() -> None:
    def packing(lengths: list[int], size: int, features: int) -> packed.Packing | None:
        return make_packing(lengths_mask(torch.tensor(lengths), size), features)

    assert packing([100] * 16, 100, 256) is None
    assert packing([75] * 16, 80, 128) is None
    assert packing([75] * 16, 80, 256) is not None
    assert packing([1, 2], 3, 16) is None
    assert packing([0, 0], 100, 256) is None
    short, long = packing([10, 40], 40, 256), packing([100, 400], 400, 256)
    assert short is not None
    assert not short.attends_apart(256)
    assert long is not None
    assert long.attends_apart(256)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positions": "rotary"},
        {"positions": "t5"},
        {"positions": "alibi", "heads": 4, "key_value_heads": 2},
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_recorded_weights_are_those_of_the_padded_batch(way: str, options: dict[str, Any]) -> None:
    encoder = toy_encoder(**options)
    x, lengths = torch.randn(3, 6, 8, dtype=torch.float64), torch.tensor([6, 1, 4])
    with _way("padded"), recording(encoder) as expected:
        encoder(x, lengths)
    with _way(way), recording(encoder) as weights:
        encoder(x, lengths)
    assert list(weights) == list(expected)
    for name in expected:
        for row, length in enumerate(lengths.tolist()):
            assert torch.allclose(weights[name][row, :, :length], expected[name][row, :, :length])
            assert torch.equal(weights.mask(name)[row, :, :length], expected.mask(name)[row, :, :length])


@pytest.mark.parametrize("way", WAYS)
def test_packed_training_drops_as_often(way: str) -> None:
    torch.manual_seed(0)
    encoder = toy_encoder(layers=0, dropout=0.25).float().train()
    x = torch.full((50, 40, 8), 0.75)
    with _way(way), patch.object(encoder, "norm", nn.Identity()):
        output = encoder(x, torch.full((50,), 30))[:, :30]
    assert set(output.unique().tolist()) == {0.0, 1.0}
    assert abs(float((output == 0).float().mean()) - 0.25) < 0.02
