"""Queries, keys, values, masks and biases without a dimension, or with size 1 in it: as if copied."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanisms import NORMALIZERS, POOLINGS, SCORES, WINDOWS, Case, D, K, gradients
from torch import Tensor

from attention_lab.attention import Attention, Dot

BATCH, HEADS = 2, 3
FOUR = [(), *product((1, BATCH), (1, HEADS))]
"""Leading dimensions of keys and masks, which must agree in their number."""
ANY = [*FOUR, (1,), (HEADS,)]

cases = st.tuples(
    st.sampled_from(sorted(SCORES)),
    st.sampled_from(sorted(NORMALIZERS)),
    st.sampled_from(sorted(WINDOWS)),
    st.sampled_from(sorted(POOLINGS)) | st.just("Soft"),
).map(lambda names: Case(*names))
of_scores = st.tuples(st.booleans(), st.booleans())  # whether all queries or all keys share a mask or a bias


@pytest.mark.long
@given(
    cases,
    st.booleans(),
    st.sampled_from([1, 4]),
    st.tuples(st.sampled_from(ANY), st.sampled_from(FOUR), st.sampled_from(FOUR)),
    st.none() | st.tuples(st.sampled_from(FOUR), of_scores, st.sampled_from([0.0, 0.4, 1.0])),
    st.none() | st.tuples(st.sampled_from(ANY), of_scores),
    st.booleans(),
    st.sampled_from([0, 3]),
    st.integers(0, 99),
)
@settings(max_examples=500)
def test_what_is_shared_is_as_if_copied(
    case: Case,
    per_head: bool,
    queries: int,
    leading: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    masked: tuple[tuple[int, ...], tuple[bool, bool], float] | None,
    biased: tuple[tuple[int, ...], tuple[bool, bool]] | None,
    causal: bool,
    offset: int,
    seed: int,
) -> None:
    """The context and all gradients; whatever the parts, in float64."""
    attention = case.make(HEADS if per_head else None).double()
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    def of_pairs(shared: tuple[bool, bool]) -> tuple[int, int]:
        return 1 if shared[0] else queries, 1 if shared[1] else K

    query, key, value = drawn(*leading[0], queries, D), drawn(*leading[1], K, D), drawn(*leading[2], K, 2)
    mask = None if masked is None else drawn(*masked[0], *of_pairs(masked[1])).sigmoid() > masked[2]
    bias = None if biased is None else drawn(*biased[0], *of_pairs(biased[1]))

    def contexts(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        memory = attention.remember(key, value, mask, causal=causal)
        found: Tensor = attention(query, memory, offset=offset, bias=bias)
        return found

    def copied(x: Tensor | None, *size: int) -> Tensor | None:
        return None if x is None else x.expand(BATCH, HEADS, *size)

    pairs = queries, K
    full = [copied(query, queries, D), copied(key, K, D), copied(value, K, 2)]
    inputs = [query, key, value, *([] if bias is None else [bias])]
    found = contexts(query, key, value, mask, bias).expand(BATCH, HEADS, -1, -1)
    expected = contexts(*full, copied(mask, *pairs), copied(bias, *pairs))  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected)
    for one, other in zip(*(gradients(x, attention, inputs) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shared", [*product((1, 2), (1, 3), (1, 4))])
def test_a_mask_with_more_dimensions_than_the_kernel_takes(shared: tuple[int, ...]) -> None:
    attention = Attention(Dot(D, D))
    query, key = torch.randn(2, 3, 4, 5, D), torch.randn(2, 3, 4, K, D)
    mask = torch.rand(*shared, 5, K) > 0.5
    found = attention(query, attention.remember(key, mask=mask))
    expected = attention(query, attention.remember(key, mask=mask.expand(2, 3, 4, -1, -1)))
    torch.testing.assert_close(found, expected)
