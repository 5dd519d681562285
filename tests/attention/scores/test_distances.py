"""Scores of a distance and all their derivatives, also where a query coincides with a key."""

import math

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Attention, Epanechnikov, Gaussian, Laplacian, Sigmoid, Softmax, Sparsemax
from attention_lab.attention.scores.distances import distance, squared_distance
from attention_lab.attention.scores.kernels import log_boxcar, log_epanechnikov


def _drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*one, dtype=torch.float64, generator=generator).requires_grad_() for one in shapes]


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize(
    ("query", "key"),
    [
        ((4,), (5,)),
        ((2, 1, 4), (1, 3, 5)),
        ((0, 4), (0, 5)),
        ((2, 0), (2, 5)),
        ((2, 4), (2, 0)),
        ((1,), (1,)),
    ],
)
@pytest.mark.parametrize("kind", ["1", "2", "squared"])
def test_values_and_derivatives_are_those_of_the_differences(
    kind: str, query: tuple[int, ...], key: tuple[int, ...], features: int
) -> None:
    def fast(q: Tensor, k: Tensor) -> Tensor:
        return squared_distance(q, k) if kind == "squared" else distance(q, k, float(kind))

    def plain(q: Tensor, k: Tensor) -> Tensor:
        pairs = q.unsqueeze(-2) - k.unsqueeze(-3)
        return pairs.square().sum(-1) if kind == "squared" else torch.linalg.vector_norm(pairs, int(kind), -1)

    inputs = _drawn((*query, features), (*key, features))
    for wanted in (inputs, inputs[:1], inputs[1:]):
        results = []
        for of in (fast, plain):
            pairs = of(*inputs)
            once = torch.autograd.grad(pairs.cos().sum(), wanted, retain_graph=True)
            first = torch.autograd.grad(pairs.cos().sum(), wanted, create_graph=True)
            second = torch.autograd.grad(sum(one.sin().sum() for one in first), wanted)
            results.append([pairs, *once, *first, *second])
        assert all(torch.allclose(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("kind", ["1", "2", "squared"])
def test_one_width_for_each_feature_keeps_the_digits_far_from_zero(kind: str) -> None:
    """Where an outlier among queries and padding among keys change nothing either."""
    query, key = (x.detach().float() + 1e5 for x in _drawn((2, 20, 4), (2, 30, 4)))
    query[:, 0], key[:, 10:] = 1e9, 0.0
    width = torch.tensor([0.3, 0.7, 1.1, 2.3])

    def distances(query: Tensor, key: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
        if kind == "squared":
            pairs = squared_distance(query, key, width)
        else:
            pairs = distance(query, key, float(kind), width)
        near = pairs[:, 1:, :10]
        return near, torch.autograd.grad((-near).exp().sum(), width)[0]

    found = distances(query, key, width.requires_grad_())
    wanted = distances(query.double(), key.double(), width.detach().double().requires_grad_())
    assert all(
        torch.allclose(x.double(), y, rtol=1e-5, atol=1e-5) for x, y in zip(found, wanted, strict=True)
    )
    assert distance(query[:, :0], key, 2.0, width).shape == (2, 0, 30)


@pytest.mark.parametrize("padding", [0.0, 1e9, math.inf, math.nan])
@pytest.mark.parametrize("rows", [slice(6, None), slice(3), [1, 2, 6]], ids=["first", "last", "around"])
def test_padding_among_the_queries_changes_no_other_distance(padding: float, rows: slice | list[int]) -> None:
    query, key = (x.detach().float() + 1e3 for x in _drawn((2, 9, 3), (2, 5, 3)))
    width = torch.tensor([1.0, 2.0, 0.5])
    real = torch.zeros(9, dtype=torch.bool)
    real[rows] = True
    query[:, ~real] = padding
    found = squared_distance(query, key, width)[:, rows]
    wanted = squared_distance(query[:, rows].double(), key.double(), width.double())
    assert torch.allclose(found.double(), wanted, atol=1e-4)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("score", [Gaussian, Epanechnikov, Laplacian])
@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax(), Sigmoid()])
def test_a_second_derivative(score: type[Gaussian], normalizer: Softmax) -> None:
    attention = Attention(score(3, 3, width=0.2), normalizer).double()
    query, key = _drawn((2, 3, 3), (2, 4, 3))
    assert torch.autograd.gradgradcheck(
        lambda q, k: attention.weights(q, attention.remember(k)).sin(), (query, key)
    )


@pytest.mark.parametrize("score", [Gaussian, Epanechnikov])
@pytest.mark.parametrize("features", [1, 3])
def test_a_hessian_where_queries_coincide_with_keys(score: type[Gaussian], features: int) -> None:
    attention, (key,) = Attention(score(features, features, width=0.1)).double(), _drawn((5, features))
    memory = attention.remember(key.detach())

    def loss(query: Tensor) -> Tensor:
        return attention.weights(query, memory).square().sum()

    def plain(query: Tensor) -> Tensor:
        squares = (query.unsqueeze(-2) - memory.keys.unsqueeze(-3)).mul(0.1).square().sum(-1)
        scores = -squares / 2 if score is Gaussian else (1 - squares).log()
        return torch.softmax(scores, -1).square().sum()

    query = key.detach()[:2]
    wanted = torch.autograd.functional.hessian(plain, query)
    for outer in (torch.func.jacfwd, torch.func.jacrev):
        assert torch.allclose(outer(torch.func.jacrev(loss))(query), wanted)
    assert torch.allclose(torch.autograd.functional.hessian(loss, query), wanted)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("score", [Gaussian, Laplacian, Epanechnikov])
def test_an_offset_of_all_inputs_changes_no_score(
    score: type[Gaussian], features: int, heads: int | None
) -> None:
    """Multiplying the inputs by the width, not their differences, would lose four digits here."""
    kernel = score(features, features, heads, width=0.3)
    generator = torch.Generator().manual_seed(0)
    leading = (2,) if heads is None else (2, heads)
    query, key = (torch.randint(9, (*leading, n, features), generator=generator) / 8 for n in (4, 5))
    wanted = kernel(query, key)
    assert torch.equal(kernel(query + 4096, key + 4096), wanted)
    kernel = kernel.double()
    assert torch.allclose(kernel(query.double(), key.double()), wanted.double(), rtol=1e-6, atol=1e-7)


def test_the_edge_of_the_support() -> None:
    query, keys = torch.zeros(1, 1, requires_grad=True), torch.tensor([[0.0], [1.0], [2.0]])
    assert log_boxcar(query, keys).tolist() == [[0.0, 0.0, -math.inf]]
    scores = log_epanechnikov(query, keys)
    assert scores.tolist() == [[0.0, -math.inf, -math.inf]]
    assert torch.autograd.grad(scores[0, 0], query)[0].tolist() == [[0.0]]  # not NaN
