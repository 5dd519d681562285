"""Attention within a band by strips of keys gives what a mask over all pairs gives."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanisms import NORMALIZERS, SCORES, gradients
from torch import Tensor

from attention_lab.attention import (
    Attention,
    Band,
    Dot,
    Hard,
    Mechanism,
    Memory,
    lengths_mask,
    recording,
)
from attention_lab.attention.fast import band
from attention_lab.attention.fast.band import Blocks, make_blocks
from attention_lab.models.parts.encoder import Encoder


@pytest.fixture(autouse=True, scope="module")
def _whatever_the_size() -> Iterator[None]:
    """Take the strips however little they save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(band, "LEAST", 0)
        patch.setattr(band, "GAIN", 0)
        yield


def _by_pairs(attention: Attention, query: Tensor, memory: Memory, offset: int) -> Tensor:
    """The definition: the weights of all pairs under the mask."""
    pooled: Tensor = attention.pooling(attention.weights(query, memory, offset=offset), memory.value)
    return pooled


def _drawn(seed: int, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    ]


@settings(max_examples=40)
@given(
    queries=st.integers(1, 90),
    keys=st.integers(1, 90),
    width=st.one_of(st.integers(0, 12), st.integers(30, 100)),
    offset=st.integers(0, 70),
    leading=st.sampled_from([(), (2,), (2, 3), (1, 2)]),
    lengths=st.sampled_from(["none", "some", "an empty example", "gaps"]),
    causal=st.booleans(),
    score=st.sampled_from(["ScaledDot", "General", "Cosine", "Gaussian", "Additive", "Laplacian", "Linear"]),
    normalizer=st.sampled_from(sorted(NORMALIZERS)),
    single=st.booleans(),
    falloff=st.sampled_from(["none", "gaussian"]),
)
def test_equals_the_mask_over_all_pairs(
    queries: int,
    keys: int,
    width: int,
    offset: int,
    leading: tuple[int, ...],
    lengths: str,
    causal: bool,
    score: str,
    normalizer: str,
    single: bool,
    falloff: str,
) -> None:
    """Contexts and gradients, of parameters too, to 1e-10 in float64 and to 1e-5 in float32."""
    torch.manual_seed(0)
    heads = 3 if len(leading) == 2 and leading[1] == 3 else None
    mechanism = Mechanism(
        SCORES[score],
        partial(NORMALIZERS[normalizer], 1.3),
        window=partial(Band, width=width, falloff=falloff if width else "none"),
    )
    attention = mechanism(4, 4, heads).double()
    inputs = _drawn(1, (*leading, queries, 4), (*leading, keys, 4), (*leading, keys, 3))
    mask = None
    if lengths != "none" and leading:
        ends = torch.tensor([keys, 0 if lengths == "an empty example" else (keys + 1) // 2])[: leading[0]]
        mask = lengths_mask(ends, keys).view(-1, *(1,) * (len(leading) - 1), 1, keys)
        mask = torch.rand(mask.shape) > 0.5 if lengths == "gaps" else mask

    def both(attention: Attention, inputs: list[Tensor], at_once: bool) -> list[Tensor]:
        query, key, value = inputs
        memory = attention.remember(key, value, mask, causal=causal)
        context = (
            attention(query, memory, offset=offset)
            if at_once
            else _by_pairs(attention, query, memory, offset)
        )
        return [context, *gradients(context, attention, inputs)]

    wanted = both(attention, inputs, at_once=False)
    for got, want in zip(both(attention, inputs, at_once=True), wanted, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=0)
    if single:
        floats = [x.detach().float().requires_grad_() for x in inputs]
        for got, want in zip(both(attention.float(), floats, at_once=True), wanted, strict=True):
            torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("score", ["ScaledDot", "Gaussian", "Additive"])
@pytest.mark.parametrize("poison", [1e9, float("nan"), float("inf")])
def test_padding_leaks_neither_value_nor_gradient(score: str, poison: float) -> None:
    attention = Mechanism(SCORES[score], window=partial(Band, width=3))(4, 4)
    query, key, value = _drawn(0, (2, 80, 4), (2, 80, 4), (2, 80, 5), dtype=torch.float32)
    mask = lengths_mask(torch.tensor([80, 37]), 80)

    def run(key: Tensor, value: Tensor) -> list[Tensor]:
        inputs = [query, *(x.detach().requires_grad_() for x in (key, value))]
        context = attention(query, attention.remember(*inputs[1:], mask))
        return [context, *gradients(context, attention, inputs)]

    clean = run(key, value)
    bad = run(*(x.masked_fill(~mask.mT, poison) for x in (key, value)))
    assert not clean[0][1, 40:].any() and clean[0][1, :40].any(-1).all()  # the last looks back three
    for got, want in zip(bad, clean, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("magnitude", [1e-40, 1e4, 1e10])
def test_extreme_scores(magnitude: float) -> None:
    attention = Attention(Dot(4, 4), window=Band(4, width=2)).double()
    query, key, value = _drawn(0, (70, 4), (70, 4), (70, 2))
    scaled = (query * magnitude).float().detach().requires_grad_()
    inputs = [scaled, *(x.detach().float().requires_grad_() for x in (key, value))]
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    context = attention.float()(inputs[0], attention.remember(*inputs[1:]))
    wanted = _by_pairs(attention, doubles[0], attention.remember(*doubles[1:]), 0)
    torch.testing.assert_close(context.double(), wanted, atol=1e-2 if magnitude > 1 else 1e-6, rtol=0)
    for gradient in gradients(context, attention, inputs):
        assert gradient.isfinite().all()


def test_bfloat16_and_autocast_are_near() -> None:
    attention = Attention(SCORES["ScaledDot"](8, 8), window=Band(8, width=5))
    query, key, value = _drawn(0, (2, 2, 90, 8), (2, 2, 90, 8), (2, 2, 90, 6), dtype=torch.float32)
    mask = lengths_mask(torch.tensor([90, 50]), 90).unsqueeze(1)
    wanted = attention(query, attention.remember(key, value, mask))
    with torch.autocast("cpu", torch.bfloat16):
        cast = attention(query, attention.remember(key, value, mask))
    halves = [x.bfloat16() for x in (query, key, value)]
    half = attention(halves[0], attention.remember(*halves[1:], mask))
    for context in (cast, half):
        assert context.dtype == torch.bfloat16
        torch.testing.assert_close(context.float(), wanted, atol=2e-2, rtol=2e-2)


def test_dropped_weights_keep_their_expectation() -> None:
    torch.manual_seed(0)
    for name in ("ScaledDot", "Additive"):
        attention = Mechanism(SCORES[name], window=partial(Band, width=4))(4, 4, None, 0.3).train()
        query, key = torch.randn(1, 60, 4), torch.randn(1, 60, 4)
        memory = attention.remember(key.expand(600, 60, 4))
        mean = attention(query.expand(600, 60, 4), memory).mean(0, keepdim=True)
        assert torch.allclose(mean, attention.eval()(query, attention.remember(key)), atol=0.15)
        assert not torch.equal(mean, attention(query, attention.remember(key)))


class _Sizes(Dot):
    """A score that notes how many pairs it is asked for."""

    seen = 0

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = super().forward(query, keys)
        self.seen = max(self.seen, scores.numel())
        return scores


@pytest.mark.parametrize("falloff", ["none", "gaussian"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_scores_grow_with_the_length_not_with_its_square(causal: bool, falloff: str) -> None:
    score, seen = _Sizes(2, 2), []
    attention = Attention(score, window=Band(2, width=8, falloff=falloff))
    for length in (256, 512, 1024):
        x = torch.randn(length, 2)
        attention(x, attention.remember(x, causal=causal))
        seen.append(score.seen)
    assert seen == [length * (32 + (8 if causal else 16)) for length in (256, 512, 1024)]


def test_no_pair_is_scored_by_the_inner_product(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention(Dot(2, 2), window=Band(2, width=8))
    monkeypatch.setattr(Dot, "forward", lambda *a: pytest.fail("the scores were computed"))
    monkeypatch.setattr(Band, "forward", lambda *a: pytest.fail("the mask of all pairs was made"))
    x = torch.randn(4, 500, 2)
    assert attention(x, attention.remember(x)).isfinite().all()


@pytest.mark.parametrize("what", ["bias", "a mask per query", "location", "hard"])
def test_what_needs_all_pairs_has_them(what: str) -> None:
    score = SCORES["Location" if what == "location" else "Dot"](4, 4)
    attention = (
        Attention(score, pooling=Hard() if what == "hard" else None, window=Band(4, width=2)).double().eval()
    )
    query, key = _drawn(0, (2, 50, 4), (2, 50, 4))
    options: dict[str, Any] = {"bias": torch.randn(50, 50).double()} if what == "bias" else {}
    memory = attention.remember(key, mask=torch.rand(50, 50) > 0.3 if what == "a mask per query" else None)
    context = attention(query, memory, **options)
    wanted = attention.pooling(attention.weights(query, memory, **options), key)
    torch.testing.assert_close(context, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("heads", [3, 16])  # 16 are as many as there are blocks
@pytest.mark.parametrize(
    ("score", "normalizer", "falloff"),
    [
        ("Laplacian", "Softmax", "none"),
        ("Cosine", "Softmax", "gaussian"),
        ("ScaledDot", "SinkSoftmax", "none"),
    ],
)
def test_heads_without_a_dimension_of_heads(heads: int, score: str, normalizer: str, falloff: str) -> None:
    """Each head attends to the same queries and keys."""
    torch.manual_seed(0)
    window = partial(Band, width=5, falloff=falloff)
    attention = Mechanism(SCORES[score], NORMALIZERS[normalizer], window=window)(4, 4, heads).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    (query,) = _drawn(0, (512, 4))
    memory = attention.remember(query)
    expected = _by_pairs(attention, query, memory, 0)
    assert expected.shape == (heads, 512, 4)
    assert torch.allclose(attention(query, memory), expected)


def test_strips_are_taken_where_they_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(band, "LEAST", 2**15)
    monkeypatch.setattr(band, "GAIN", 2)
    assert make_blocks(4096, 4096, 64, causal=False) == Blocks(4096, 4096, 0, 64, 64, 64)
    assert make_blocks(4096, 4096, 64, causal=True) == Blocks(4096, 4096, 0, 64, 0, 64)
    for queries, keys, width, offset in (
        (64, 64, 0, 0),
        (512, 512, 256, 0),
        (0, 9000, 1, 0),
        (500, 500, 5, 505),
    ):
        assert make_blocks(queries, keys, width, causal=False, offset=offset) is None


def test_a_band_that_falls_off_never_holds_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention(SCORES["ScaledDot"](2, 2), window=Band(2, width=8, falloff="gaussian"))
    monkeypatch.setattr(Band, "forward", lambda *a: pytest.fail("the mask of all pairs was made"))
    x = torch.randn(4, 500, 2)
    assert attention(x, attention.remember(x)).isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_takes_strips_and_is_recorded_in_full(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    encoder = Encoder(
        Mechanism(SCORES["ScaledDot"], window=partial(Band, width=3)),
        d_model=8,
        heads=2,
        layers=2,
        feedforward=8,
        dropout=0.0,
        attention_dropout=0.0,
        causal=causal,
    )
    x, lengths = torch.randn(3, 70, 8), torch.tensor([70, 70, 69])
    with monkeypatch.context() as patch:
        patch.setattr(Band, "forward", lambda *a: pytest.fail("the mask of all pairs was made"))
        plain = encoder(x, lengths)
    with recording(encoder, examples=[2, 0]) as weights:
        assert torch.equal(encoder(x, lengths), plain)
    near = torch.ones(70, 70).tril(3).triu(-3).bool() & (torch.ones(70, 70).tril().bool() if causal else True)
    seen = weights["layers.1.attention.attention"]
    assert seen.shape == (2, 2, 70, 70) and (seen.gt(0) <= near).all()
    torch.testing.assert_close(seen.sum(-1), torch.ones(2, 2, 70))
    assert not seen[0, :, :, 69].any() and seen[1, :, 69, 69].all()
    monkeypatch.setattr(band, "LEAST", 10**9)
    torch.testing.assert_close(encoder(x, lengths), plain, atol=1e-5, rtol=0)
