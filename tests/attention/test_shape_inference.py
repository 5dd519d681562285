"""Tensors without values: every mechanism computes its shapes on the meta device and in `FakeTensorMode`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
import torch
from mechanisms import CASES, B, Case, D, K, Q
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from attention_lab.attention import (
    Additive,
    Attention,
    Mechanism,
    MultiHead,
    ScaledDot,
    adjacency_mask,
    lengths_mask,
    recording,
)
from attention_lab.attention.masks import known_all_true
from attention_lab.attention.torch_state import has_values

Without = Callable[[], AbstractContextManager[object]]
without_values = pytest.mark.parametrize(
    "without", [partial(torch.device, "meta"), FakeTensorMode], ids=["meta", "fake"]
)


@pytest.mark.sampled(3)
@without_values
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_mechanism(case: Case, without: Without) -> None:
    with without():
        attention = case.make(2)
        query, key = torch.randn(B, 2, Q, D), torch.randn(B, 2, K, D)
        value = torch.randn(B, 2, K, 2, requires_grad=True)
        memory = attention.remember(key, value, torch.ones(B, 1, 1, K, dtype=torch.bool))
        context = attention(query, memory)
        assert attention.weights(query, memory).shape == (B, 2, Q, K)
        context.sum().backward()
    assert context.shape == (B, 2, Q, 2)
    assert value.grad is not None and value.grad.shape == value.shape


@without_values
def test_additive_scores_of_many_pairs(without: Without) -> None:
    """Above the size from which they look at the range of the numbers."""
    with without():
        layer = MultiHead(Mechanism(Additive), 64, 4)
        x = torch.randn(2, 128, 64, requires_grad=True)
        layer(x, causal=True).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


@without_values
def test_masks(without: Without) -> None:
    with without():
        lengths, edges = torch.tensor([3, 1]), torch.tensor([[0, 1], [1, 2]])
        assert not has_values(lengths) and not known_all_true(lengths > 0)
        assert lengths_mask(lengths, 4).shape == (2, 1, 4)
        assert adjacency_mask(edges, 3).shape == (3, 3)
    assert has_values(torch.ones(2))


@without_values
def test_an_attention_without_keys(without: Without) -> None:
    with without():
        attention: Attention = Case("Gaussian").make()
        assert attention(torch.randn(Q, D), attention.remember(torch.randn(0, D))).shape == (Q, D)


@without_values
def test_recorded_weights(without: Without) -> None:
    with without():
        x = torch.randn(B, K, 8)
        for model, arguments in [
            (nn.MultiheadAttention(8, 2, batch_first=True), (x, x, x)),
            (MultiHead(Mechanism(ScaledDot), 8, 2), (x,)),
        ]:
            with recording(model, examples=[0]) as weights:
                model(*arguments)
            assert [weights[name].shape for name in weights] == [(1, 2, K, K)]
