"""A few queries in a band: only the keys near them are looked at, with the same contexts and gradients."""

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanisms import NORMALIZERS, SCORES, gradients
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Mechanism,
    ScaledDot,
    Score,
    Softmax,
    Sparsemax,
    recording,
)


@settings(max_examples=60)
@given(
    queries=st.integers(1, 3),
    keys=st.integers(1, 40),
    width=st.integers(0, 4),
    offset=st.integers(0, 45),
    masked=st.booleans(),
    causal=st.booleans(),
    heads=st.sampled_from([None, 2]),
    score=st.sampled_from(["ScaledDot", "Cosine", "Gaussian", "Additive", "Laplacian", "Linear", "Location"]),
    normalizer=st.sampled_from(sorted(NORMALIZERS)),
    falloff=st.sampled_from(["none", "gaussian"]),
)
def test_equals_the_mask_over_all_keys(
    queries: int,
    keys: int,
    width: int,
    offset: int,
    masked: bool,
    causal: bool,
    heads: int | None,
    score: str,
    normalizer: str,
    falloff: str,
) -> None:
    torch.manual_seed(0)
    window = partial(Band, width=width, falloff=falloff if width else "none")
    attention = Mechanism(SCORES[score], NORMALIZERS[normalizer], window=window)(4, 4, heads).double()
    leading = (3,) if heads is None else (3, heads)
    inputs = [
        torch.randn(*leading, *size, dtype=torch.float64, requires_grad=True)
        for size in ((queries, 4), (keys, 4), (keys, 2))
    ]
    mask = torch.rand(3, *(1,) * (len(leading) - 1), 1, keys) > 0.4 if masked else None
    query, key, value = inputs
    memory = attention.remember(key, value, mask, causal=causal)
    found = attention(query, memory, offset=offset)
    wanted = attention.weights(query, memory, offset=offset) @ memory.value
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)
    each = (gradients(context, attention, inputs, keep=True) for context in (found, wanted))
    for got, want in zip(*each, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("score", "normalizer", "falloff"),
    [(Additive, Softmax, "none"), (ScaledDot, Softmax, "gaussian"), (ScaledDot, Sparsemax, "none")],
)
def test_the_work_does_not_grow_with_the_number_of_keys(
    score: type[Score], normalizer: type[Softmax], falloff: str
) -> None:
    attention = Attention(score(4, 4), normalizer(), window=Band(4, width=2, falloff=falloff)).eval()
    work = []
    for keys in (20, 2000):
        memory = attention.remember(torch.randn(2, keys, 4))
        with FlopCounterMode(display=False) as counter:
            attention(torch.randn(2, 1, 4), memory, offset=10)
        work.append(counter.get_total_flops())
    assert work[0] == work[1] > 0


def test_the_fused_kernel_gets_only_the_keys_of_the_band(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, sizes = torch.nn.functional.scaled_dot_product_attention, []

    def spy(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        sizes.append(key.shape[-2])
        return kernel(query, key, value, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    attention = Attention(ScaledDot(4, 4), window=Band(4, width=2)).eval()
    for causal, offset in ((False, 10), (True, 10), (False, 0), (False, 41)):
        attention(
            torch.randn(2, 1, 4), attention.remember(torch.randn(2, 40, 4), causal=causal), offset=offset
        )
    assert sizes == [5, 3, 3, 1]


def test_a_recording_has_the_weights_of_all_keys() -> None:
    attention = Attention(ScaledDot(4, 4), window=Band(4, width=2)).eval()
    query, key = torch.randn(2, 1, 4), torch.randn(2, 30, 4)
    memory = attention.remember(key)
    with recording(attention) as weights:
        context = attention(query, memory, offset=10)
    assert weights[""].shape == (2, 1, 1, 30) and (weights[""] > 0).sum() == 2 * 5
    torch.testing.assert_close(weights[""].squeeze(1) @ key, context)
