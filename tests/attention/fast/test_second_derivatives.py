"""Gradients that are differentiated again, where the keys are the queries or are computed from them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attention_lab.attention import (
    Additive,
    Attention,
    Epanechnikov,
    Gaussian,
    Laplacian,
    Linear,
    Sparsemax,
    lengths_mask,
)
from attention_lab.attention.fast.additive.scores import additive_scores
from attention_lab.attention.fast.linear import linear_attention
from attention_lab.attention.scores.distances import distance, squared_distance

SIZE = 16
ATTENTIONS: dict[str, Callable[[], Attention]] = {
    "additive": lambda: Attention(Additive(SIZE, SIZE)),
    "laplacian": lambda: Attention(Laplacian(SIZE, SIZE)),
    "epanechnikov": lambda: Attention(Epanechnikov(SIZE, SIZE)),
    "gaussian": lambda: Attention(Gaussian(SIZE, SIZE), Sparsemax()),
    "linear": lambda: Attention(Linear(SIZE, SIZE)),
}


def _check(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """That the gradient is the same with a graph of its own, and one of several at once."""
    (wanted,) = torch.autograd.grad(function(x).sum(), x)
    (found,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    result = function(x).sum()
    (several,) = torch.autograd.grad(result, x, torch.tensor([1.0, 2.0]).double(), is_grads_batched=True)
    assert torch.allclose(several, torch.stack([wanted, 2 * wanted]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("one_is", ["the other", "computed from the other"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: distance(x, y, 1.0).cos(),
        lambda x, y: squared_distance(x, y).cos(),
        lambda x, y: additive_scores(x, y, x.new_ones(SIZE), "tanh").cos(),
        lambda x, y: linear_attention(x.exp(), y.exp(), y, causal=True),
    ],
    ids=["distance", "squared distance", "additive", "linear"],
)
def test_two_inputs_of_a_function(function: Callable[[Tensor, Tensor], Tensor], one_is: str) -> None:
    torch.manual_seed(0)
    # so long that additive scores are computed in chunks
    x = torch.randn(130, SIZE, dtype=torch.float64, requires_grad=True)
    _check(lambda x: function(x, x if one_is == "the other" else x.tanh()), x)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_self_attention(name: str, padded: bool) -> None:
    torch.manual_seed(0)
    attention = ATTENTIONS[name]().double()
    mask = lengths_mask(torch.tensor([5, 3]), 5) if padded else None
    x = torch.randn(2, 5, SIZE, dtype=torch.float64, requires_grad=True)
    _check(lambda x: attention(x, attention.remember(x, mask=mask)).sin(), x)
