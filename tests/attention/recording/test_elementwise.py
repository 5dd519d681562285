"""Weights of several queries that are multiplied elementwise with values, then summed over the keys."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import FromFunction

from attention_lab.attention import recording

B, H, Q, L, D = 3, 2, 5, 6, 4
PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "keys, features": lambda w, x: (w[..., None] * x.unsqueeze(-3)).sum(-2),
    "values first": lambda w, x: torch.sum(x.unsqueeze(-3) * w.unsqueeze(-1), dim=w.dim() - 1),
    "features, keys": lambda w, x: (w.unsqueeze(-2) * x.mT.unsqueeze(-3)).sum(-1),
    "keys, queries": lambda w, x: (w.mT.unsqueeze(-1) * x.unsqueeze(-2)).sum(-3),
    "keepdim": lambda w, x: torch.mul(w[..., None], x.unsqueeze(-3)).sum(dim=-2, keepdim=True).squeeze(-2),
    "expanded": lambda w, x: (w[..., None].expand(*w.shape, D) * x.unsqueeze(-3).expand(*w.shape, D)).sum(-2),
    "matrices": lambda w, x: w @ x,
}
SCORES: dict[str, Callable[["Layer", Tensor, Tensor], Tensor]] = {
    "products": lambda layer, q, x: q @ x.mT,
    "elementwise products": lambda layer, q, x: (q.unsqueeze(-2) * x.unsqueeze(-3)).sum(-1),
    "additive": lambda layer, q, x: layer.score((q.unsqueeze(-2) + x.unsqueeze(-3)).tanh()).squeeze(-1),
}


class Layer(nn.Module):
    def __init__(self, scores: str, product: str) -> None:
        super().__init__()
        self.scores, self.product = SCORES[scores], PRODUCTS[product]
        self.score, self.dropout = nn.Linear(D, 1), nn.Dropout(0.3)

    def forward(self, q: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        weights = self.scores(self, q, x).masked_fill(~mask, -torch.inf).softmax(-1)
        self.expected = weights.detach()
        return self.product(self.dropout(weights), x)


class Heads(Layer):
    num_heads = H


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("queries", [1, H, Q])
@pytest.mark.parametrize("heads", [False, True])
def test_the_arrangement_is_that_of_a_product_of_matrices(
    scores: str, product: str, queries: int, heads: bool
) -> None:
    shape, mask = ((B, H) if heads else (B,)), torch.ones(L, dtype=torch.bool)
    mask[-1] = False
    model = (Heads if heads else Layer)(scores, product)
    with recording(model) as weights, recording(model, 1, queries=[-1]) as some:
        model(torch.randn(*shape, queries, D), torch.randn(*shape, L, D), mask)
    expected = model.expected if heads else model.expected[:, None]
    assert list(weights) == [""] and torch.equal(weights[""], expected)
    assert torch.equal(weights.mask(""), mask.expand(expected.shape))
    assert torch.equal(some[""], expected[1:2, :, -1:])


def test_parts_of_the_heads_one_by_one() -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = (x @ x.mT).softmax(-1)
            self.expected = weights.detach().flatten(1, 2)[:, None]
            return torch.stack([(weights[:, h, ..., None] * x[:, h, None]).sum(2) for h in range(H)], 1)

    with recording(model := Parts()) as weights:
        model(torch.randn(B, H, L, D))
    assert list(weights) == [""] and torch.equal(weights[""], model.expected)


def test_expanded_weights_of_one_query() -> None:
    def attend(x: Tensor) -> Tensor:
        weights = (x[:, :1] * x).sum(-1).softmax(1)
        return (weights.unsqueeze(2).expand_as(x) * x).sum(1)

    x = torch.randn(B, L, D)
    with recording(model := FromFunction(attend)) as weights:
        model(x)
    assert torch.allclose(weights[""][:, 0], (x[:, :1] @ x.mT).softmax(-1), atol=1e-6)


def test_cosine_similarities_of_one_query() -> None:
    """As in Neural Turing Machines (1410.5401)."""

    def attend(x: Tensor) -> Tensor:
        weights = F.cosine_similarity(x[:, :1], x, dim=-1).softmax(1)
        return (weights.unsqueeze(2) * x).sum(1)

    x = torch.randn(B, L, D)
    unit = F.normalize(x, dim=-1)
    with recording(model := FromFunction(attend)) as weights:
        model(x)
    assert torch.allclose(weights[""][:, 0], (unit[:, :1] @ unit.mT).softmax(-1), atol=1e-6)


def test_an_unknown_normaliser() -> None:
    def attend(x: Tensor) -> Tensor:
        powers = (x @ x.mT).exp()
        weights = powers * powers.sum(-1, keepdim=True).reciprocal()
        return (weights.unsqueeze(-1) * x.unsqueeze(1)).sum(2)

    x = torch.randn(B, L, D)
    with recording(model := FromFunction(attend)) as weights:
        model(x)
    assert torch.allclose(weights[""][:, 0], (x @ x.mT).softmax(-1), atol=1e-6)


def test_no_attention() -> None:
    """Linear attention, a mixture of experts for each position, and an outer product of features."""

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.router = nn.Linear(D, D), nn.Linear(D, L)
            self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(L))

        def forward(self, x: Tensor) -> Tensor:
            outputs = torch.stack([expert(x.mean(1)) for expert in self.experts], 1)
            found = (self.router(x).softmax(-1).unsqueeze(-1) * outputs.unsqueeze(1)).sum(2)
            found = found + (self.router(x).softmax(-1).unsqueeze(-1) * self.experts[0].weight[0]).sum(2)
            keys = (x @ torch.randn(D, D)).softmax(1)
            return found + x @ (keys.unsqueeze(-1) * x.unsqueeze(2)).sum(1)

    with recording(model := Other()) as weights:
        model(torch.randn(B, L, D))
    assert not weights


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("other", ["coo", "csr", "nested"])
def test_weights_times_a_tensor_that_is_sparse_or_nested(other: str) -> None:
    """Such as the edges of a graph; the model runs as without a recording."""

    def attend(x: Tensor) -> Tensor:
        weights = (x @ x.mT).softmax(-1)
        if other == "nested":
            parts = [torch.ones(2, D), torch.ones(3, D)]
            return weights[:2, 0, :, None] * torch.nested.nested_tensor(parts, layout=torch.jagged)
        edges = torch.eye(L)
        return weights[0] * (edges.to_sparse() if other == "coo" else edges.to_sparse_csr())

    model, x = FromFunction(attend), torch.randn(B, 3 if other == "nested" else L, D)
    with recording(model) as weights:
        model(x)
    assert not weights
