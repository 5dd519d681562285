"""Attention with one query, as tutorials write it: pooling, and the steps of a recurrent decoder."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn
from written_elsewhere import FromFunction

from attention_lab.attention import recording

B, L, D = 3, 6, 8
Style = Callable[["Decoder", Tensor, Tensor], tuple[Tensor, Tensor]]
STYLES: dict[str, Style] = {}


def style(attend: Style) -> Style:
    """Add a function from a query `[B, D]` and a source `[B, L, D]` to weights `[B, L]` and the context."""
    STYLES[attend.__name__] = attend
    return attend


@style
def bahdanau(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weights = F.softmax(layer.score(torch.tanh(layer.of_query(q).unsqueeze(1) + layer.of_key(x))), dim=1)
    return weights.squeeze(2), (weights * x).sum(dim=1)


@style
def values_times_weights(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """As in tutorials on image captions (1502.03044)."""
    scores = layer.score(F.relu(layer.of_query(q).unsqueeze(1) + layer.of_key(x))).squeeze(2)
    weights = layer.softmax(scores.masked_fill(x[..., 0] > 1, -1e9))
    return weights, torch.sum(x * layer.dropout(weights).unsqueeze(2), 1)


@style
def source_first(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.transpose(0, 1)
    weights = torch.softmax(torch.sum(q[None] * x, dim=2), dim=0)
    return weights.T, torch.mul(weights.unsqueeze(-1), x).sum(0, keepdim=True).squeeze(0)


@style
def features_first(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weights = (x @ layer.vector).softmax(-1)
    return weights, (weights[:, None] * x.mT).sum(axis=-1)  # type: ignore[call-overload]


@style
def heads(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """One head, as a dimension of its own."""
    weights = (q[:, None, None] @ x.mT[:, None]).mT.softmax(-2)
    return weights.flatten(1), (weights * x[:, None]).sum(2).flatten(1)


@style
def einsum_without_a_query(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weights = layer.dropout(einsum("bd,bkd->bk", q, x).softmax(-1))
    return einsum("bd,bkd->bk", q, x).softmax(-1), einsum("bk,bkd->bd", weights, x)


@style
def einsum_of_heads(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weights = einsum("bhd,bkhd->hbk", q.unsqueeze(1), x.unsqueeze(2)).softmax(-1)
    return weights[0], einsum("hbk,bkhd->bhd", weights, x.unsqueeze(2)).flatten(1)


@style
def exponentials(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    powers = torch.exp(layer.score(x))
    weights = powers / powers.sum(1, keepdim=True)
    return weights.squeeze(2), (weights * x).sum(1)


@style
def vector_times_energies(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    weights = (layer.vector * torch.tanh(layer.of_query(q).unsqueeze(1) + layer.of_key(x))).sum(-1).softmax(1)
    return weights, (weights.unsqueeze(-1) * x).sum(1)


@style
def convolution(layer: "Decoder", q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """As poolings of speech and of point clouds compute their scores."""
    weights = layer.convolution(torch.tanh(layer.of_query(q).unsqueeze(2) + x.mT)).softmax(-1)
    return weights.squeeze(1), (x.mT * layer.dropout(weights)).sum(-1)


class Decoder(nn.Module):
    """A layer that attends with one of the styles, two steps long."""

    num_heads = 1

    def __init__(self, attend: Style) -> None:
        super().__init__()
        self.attend = attend
        self.of_query, self.of_key, self.score = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)
        self.softmax, self.dropout = nn.Softmax(dim=1), nn.Dropout(0.2)
        self.convolution, self.vector = nn.Conv1d(D, 1, 1), nn.Parameter(torch.randn(D))

    def forward(self, x: Tensor) -> Tensor:
        query = x.mean(1)
        self.expected = []
        for _ in range(2):
            weights, query = self.attend(self, query, x)
            self.expected.append(weights.detach())
        return query


@pytest.mark.parametrize("name", STYLES)
def test_each_step_is_a_query(name: str) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Decoder(STYLES[name])), torch.randn(B, L, D)
    for train in (False, True):
        with recording(model.train(train)) as weights, recording(model, 1, queries=[1]) as some:
            model(x)
        expected = torch.stack(model[0].expected, 1).unsqueeze(1)
        assert list(weights) == ["0"]
        assert weights["0"].shape == (B, 1, 2, L) and torch.allclose(weights["0"], expected, atol=1e-6)
        if name == "values_times_weights":
            assert torch.equal(weights.mask("0")[:, 0, 0], x[..., 0] <= 1)
        else:
            assert weights.mask("0").all()
        assert torch.equal(some["0"], weights["0"][1:2, :, 1:])


@pytest.mark.parametrize("name", STYLES)
def test_nothing_else_changes(name: str) -> None:
    model, x = Decoder(STYLES[name]), torch.randn(B, L, D, requires_grad=True)

    def run() -> list[Tensor]:
        torch.manual_seed(1)
        output = model(x)
        found = torch.autograd.grad(output.square().sum(), [x, *model.parameters()], allow_unused=True)
        return [output, torch.rand(2), *(one for one in found if one is not None)]

    plain = run()
    with recording(model):
        recorded = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))


def test_without_a_batch() -> None:
    """A bag of instances (1802.04712), and products of a vector or of two matrices."""

    def pooled(x: Tensor) -> Tensor:
        return ((x @ x[0]).unsqueeze(1).softmax(0) * x).sum(0)

    def vector(x: Tensor) -> Tensor:
        return (x @ x[0]).unsqueeze(1).softmax(0).squeeze(1) @ x

    def vector_last(x: Tensor) -> Tensor:
        return x.mT @ (x @ x[0]).unsqueeze(1).softmax(0).flatten()

    def tensordot(x: Tensor) -> Tensor:
        return torch.tensordot((x[:2] @ x.mT).softmax(-1), x, dims=1)

    def tensordot_of_lists(x: Tensor) -> Tensor:
        return torch.tensordot(x, (x @ x[:2].mT).softmax(0), dims=([0], [0]))

    x = torch.randn(L, D)
    for attend, queries in [
        (pooled, 1),
        (vector, 1),
        (vector_last, 1),
        (tensordot, 2),
        (tensordot_of_lists, 2),
    ]:
        model = FromFunction(attend)
        with recording(model) as weights:
            model(x)
        assert weights[""].shape == (1, 1, queries, L), attend.__name__
        assert torch.allclose(weights[""][0, 0], (x[:queries] @ x.mT).softmax(-1), atol=1e-6)


def test_words_then_sentences() -> None:
    """Hierarchical attention: the values of the second are the contexts of the first, and no product."""

    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.sentences = nn.Linear(D, 1), nn.Linear(D, 1)

        def forward(self, x: Tensor) -> Tensor:
            words = self.words(x).softmax(1).mT @ x
            x = words.view(B, 2, D)
            return self.sentences(x).softmax(1).mT @ x  # type: ignore[no-any-return]

    model = Sentences()
    with recording(model) as weights:
        model(torch.randn(2 * B, L, D))
    assert {name: one.shape for name, one in weights.items()} == {"": (2 * B, 1, 1, L), "#2": (B, 1, 1, 2)}


def test_pooling_with_several_heads() -> None:
    """Each head has an output of the layer, and the softmax runs over the positions."""

    def own_values(weights: Tensor, x: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * x.unflatten(-1, (2, D // 2))).sum(1).flatten(1)

    def same_values(weights: Tensor, x: Tensor) -> Tensor:
        return (weights.unsqueeze(-1) * x.unsqueeze(2)).sum(dim=1).flatten(1)

    def einsum_of_own_values(weights: Tensor, x: Tensor) -> Tensor:
        return einsum("blh,blhd->bhd", weights, x.unflatten(-1, (2, D // 2))).flatten(1)

    class Pooling(nn.Module):
        def __init__(self, pool: Callable[[Tensor, Tensor], Tensor], heads: int | None) -> None:
            super().__init__()
            self.energies, self.pool = nn.Linear(D, 2), pool
            if heads:
                self.num_heads = heads

        def forward(self, x: Tensor) -> Tensor:
            weights = torch.tanh(self.energies(x)).softmax(dim=1)
            self.expected = weights.detach()
            return self.pool(weights, x)

    for pool in (own_values, same_values, einsum_of_own_values):
        for heads in (None, 2):
            with recording(model := Pooling(pool, heads)) as weights:
                model(torch.randn(B, L, D))
            assert torch.equal(weights[""][:, :, 0], model.expected.mT), pool.__name__


@pytest.mark.parametrize("turned", [False, True])
def test_the_context_of_additive_scores_is_a_query(turned: bool) -> None:
    """It is multiplied with keys at once, but not summed over its queries, as in linear attention."""

    class Hops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(D, 1)

        def forward(self, x: Tensor) -> Tensor:
            weights = self.score(torch.tanh(x[:, :, None] + x[:, None])).squeeze(-1).softmax(-1)
            context = weights @ x
            scores = (x @ context.mT).mT if turned else context @ x.mT
            return scores.softmax(-1) @ x

    with recording(model := Hops()) as weights:
        model(torch.randn(B, L, D))
    assert list(weights) == ["", "#2"]


@pytest.mark.parametrize("examples", [3, 4])
def test_pooling_in_a_model_with_several_heads(examples: int) -> None:
    """Such as an encoder that pools its states, and whose number of heads is that of its layers."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.num_heads = nn.Linear(D, 1), 2

        def forward(self, x: Tensor) -> Tensor:
            weights = self.score(x).softmax(1)
            self.expected = weights.detach()
            return (weights * x).sum(1)

    with recording(model := Encoder()) as weights:
        model(torch.randn(examples, L, D))
    assert torch.equal(weights[""], model.expected.mT.unsqueeze(1))


def test_additive_scores_of_heads_before_examples() -> None:
    class Additive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.num_heads = nn.Linear(D // 2, 1), 2

        def forward(self, x: Tensor) -> Tensor:
            x = torch.stack(x.chunk(2, -1))
            weights = self.score(torch.tanh(x[:, :, :, None] + x[:, :, None])).squeeze(-1).softmax(-1)
            self.expected = weights.detach()
            return weights @ x

    with recording(model := Additive()) as weights:
        model(torch.randn(B, L, D))
    assert torch.equal(weights[""], model.expected.transpose(0, 1))


def test_additive_scores_of_heads_joined_with_examples() -> None:
    class Additive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.num_heads = nn.Linear(D // 2, 1), 2

        def forward(self, x: Tensor) -> Tensor:
            x = x.unflatten(-1, (2, D // 2)).transpose(1, 2).flatten(0, 1)
            weights = self.score(torch.tanh(x[:, :, None] + x[:, None])).squeeze(-1).softmax(-1)
            self.expected = weights.detach()
            return weights @ x

    with recording(model := Additive()) as weights:
        model(torch.randn(B, L, D))
    assert torch.equal(weights[""], model.expected.unflatten(0, (B, 2)))
