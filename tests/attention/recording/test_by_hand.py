"""Attention written by hand in many ways, and softmaxes that are not attention."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from attention_lab.attention import recording

B, H, L, D = 3, 4, 6, 8
einsum = torch.einsum
Attend = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]
STYLES: dict[str, Attend] = {}


def style(attend: Attend) -> Attend:
    """Add a function from queries, keys and values `[B, H, L, D]` to the context of the same shape."""
    STYLES[attend.__name__] = attend
    return attend


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(D)


@style
def heads_after_queries(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = einsum("bhqd,bhkd->bqhk", q, k).div(math.sqrt(D)).softmax(-1)
    return einsum("bqhk,bhkd->bqhd", weights, v).transpose(1, 2)


@style
def heads_before_examples(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return einsum("hbqk,bhkd->bhqd", F.softmax(_scores(q, k).transpose(0, 1), dim=-1), v)


@style
def heads_last(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As in Transformer-XL (1901.02860)."""
    scores = einsum("ibnd,jbnd->ijbn", q.permute(2, 0, 1, 3), k.permute(2, 0, 1, 3))
    weights = layer.dropout(F.softmax(scores.mul_(1 / math.sqrt(D)), dim=1))
    return einsum("ijbn,jbnd->ibnd", weights, v.permute(2, 0, 1, 3)).permute(1, 2, 0, 3)


@style
def values_first(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As in SAGAN (1805.08318): values times transposed weights."""
    weights = F.softmax(_scores(q, k), dim=-1)
    return torch.matmul(v.permute(0, 1, 3, 2), weights.permute(0, 1, 3, 2)).permute(0, 1, 3, 2)


@style
def keys_first(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(_scores(k, q), dim=2).mT @ v


@style
def module_for_the_softmax(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    return torch.bmm(layer.dropout(layer.softmax(_scores(q, k))), v).unflatten(0, (B, H))


@style
def heads_in_groups(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.unflatten(1, (2, 2)) for x in (q, k, v))
    return (_scores(q, k).softmax(-1) @ v).flatten(1, 2)


@style
def rearranged(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = rearrange(layer.dropout(_scores(q, k).softmax(-1)), "b h q k -> (b h) q k")
    return torch.matmul(weights, v.flatten(0, 1), out=torch.empty(B * H, L, D)).unflatten(0, (B, H))


@style
def logarithms(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.log_softmax(_scores(q, k), dim=-1).exp() @ v


@style
def exponentials(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (powers / (powers.sum(dim=-1, keepdim=True) + 1e-9)) @ v


@style
def sum_of_exponentials(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _scores(q, k)
    return layer.dropout(torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))) @ v


@style
def a_sink(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A key without a value, whose weight is dropped after the softmax."""
    scores = torch.cat([_scores(q, k), q.new_full((B, H, L, 1), -torch.inf)], dim=-1)
    return layer.dropout(scores.softmax(dim=-1))[..., :-1] @ v


@style
def normalised_again(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = _scores(q, k).softmax(-1) + 0.0
    return (weights / weights.sum(-1, keepdim=True)) @ v


@style
def values_from_a_product(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _scores(q, k).softmax(-1) @ (v @ torch.eye(D).expand(B, H, D, D))


@style
def talking_heads(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """2003.02436: a product, a linear map and a convolution mix the heads, here without effect."""
    weights = einsum("bhqk,hg->bgqk", _scores(q, k).softmax(-1), layer.eye)
    weights = F.linear(weights.permute(0, 2, 3, 1), layer.eye).permute(0, 3, 1, 2)
    return F.conv2d(weights, layer.eye[..., None, None]) @ v


@style
def einsum_with_dots(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return einsum("... q k, ...kd -> ...qd", layer.dropout(_scores(q, k).softmax(-1)), v)


@style
def difference(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """2410.05258: one map minus another, which here is zero."""
    maps = torch.stack([_scores(q, k), _scores(k, q)], 2).softmax(-1)
    return (maps[:, :, 0] - 0.0 * maps[:, :, 1]) @ v


@style
def parts_of_the_keys(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = layer.dropout(_scores(q, k).softmax(-1))
    return weights[..., 2:] @ v[..., 2:, :] + weights[..., :2] @ v[..., :2, :]


@style
def parts_of_the_heads(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = _scores(q, k).softmax(-1)
    return torch.cat([weights[:, part] @ v[:, part] for part in (slice(1), slice(1, 3), slice(3, None))], 1)


@style
def after_another_softmax(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    gate = q.mean((2, 3)).softmax(-1).sum(-1)
    return _scores(q, k).softmax(-1) @ v * gate[:, None, None, None]


class Layer(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend, self.num_heads = attend, H
        self.projections = nn.Linear(H * D, 3 * H * D)
        self.softmax, self.dropout = nn.Softmax(dim=-1), nn.Dropout(0.1)
        self.eye = nn.Parameter(torch.eye(H))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (H, D)).transpose(1, 2) for one in self.projections(x).chunk(3, -1))
        self.expected = _scores(q, k).softmax(-1).detach()
        return self.attend(self, q, k, v).transpose(1, 2).flatten(2)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", STYLES)
def test_weights_are_recorded_as_examples_heads_queries_keys(name: str) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Layer(STYLES[name])), torch.randn(B, L, H * D)
    model[0].projections.weight.data *= 3
    for train in (False, True):
        model.train(train)
        with torch.no_grad(), recording(model) as weights, recording(model, 1, heads=[2], queries=-1) as some:
            model(x)
        assert list(weights) == ["0"]
        assert weights["0"].shape == weights.mask("0").shape == (B, H, L, L)
        assert torch.allclose(weights["0"], model[0].expected, atol=1e-6) and weights.mask("0").all()
        assert torch.equal(some["0"], weights["0"][1:2, 2:3, -1:])


@pytest.mark.parametrize("name", sorted(set(STYLES) - {"rearranged"}))  # `out=` has no gradient
def test_nothing_else_changes(name: str) -> None:
    model, x = Layer(STYLES[name]), torch.randn(B, L, H * D)

    def run() -> list[Tensor]:
        torch.manual_seed(1)
        output = model(x)
        found = torch.autograd.grad(output.square().sum(), list(model.parameters()), allow_unused=True)
        return [output, torch.rand(2), *(one for one in found if one is not None)]

    plain = run()
    with recording(model):
        recorded = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))


def test_weights_that_are_changed_in_place_after_dropout() -> None:
    """The weights from before dropout, which the backward pass needs, are not changed."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = F.dropout((x @ x.mT).softmax(-1), 0.5)
            weights *= torch.ones(L, L).tril()
            return weights @ x

    model, x = Model(), torch.randn(B, L, D, requires_grad=True)
    with recording(model) as weights:
        model(x).sum().backward()
    assert torch.equal(weights[""][:, 0], (x @ x.mT).softmax(-1).tril())


def test_one_query_and_no_batch() -> None:
    class Bahdanau(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(F.softmax(torch.tanh(x).sum(-1), dim=1).unsqueeze(1), x)

    class Graph(nn.Module):
        """Dense graph attention (1710.10903)."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(D, D))

        def forward(self, x: Tensor) -> Tensor:
            h = torch.mm(x[0], self.weight)
            return torch.matmul(F.dropout(F.softmax(h[:, :1] + h[:, 1:2].T, dim=1), 0.6), h)

    class Slots(nn.Module):
        """Slot attention (2006.15055): normalised over the queries, then over the keys."""

        def forward(self, x: Tensor) -> Tensor:
            weights = einsum("bid,bjd->bij", x[:, :2], x).softmax(dim=1) + 1e-8
            return einsum("bjd,bij->bid", x, weights / weights.sum(dim=-1, keepdim=True))

    for model, shape in [(Bahdanau(), (B, 1, 1, L)), (Graph(), (1, 1, L, L)), (Slots(), (B, 1, 2, L))]:
        with recording(model) as weights:
            model(torch.randn(B, L, D))
        assert weights[""].shape == shape
        assert torch.allclose(weights[""].sum(-1), torch.ones(shape[:-1]))


def test_attention_in_several_places_of_a_module() -> None:
    """In its method, in a helper method, and in a part of it in between."""

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def both(self, x: Tensor) -> Tensor:
            x = (x @ x[:, :4].mT).softmax(-1) @ x[:, :4]
            return (x @ x[:, :3].mT).softmax(-1) @ x[:, :3]  # type: ignore[no-any-return]

        def forward(self, x: Tensor) -> Tensor:
            x = (x @ x[:, :5].mT).softmax(-1) @ x[:, :5]
            return self.both(self.inner(x))

    model = nn.Sequential(Outer())
    with recording(model) as weights:
        model(torch.randn(B, L, D))
        model(torch.randn(B, L, D))
    keys = {"0": 5, "0.inner": L, "0#2": 4, "0#3": 3}
    assert {name: one.shape for name, one in weights.items()} == {
        name: (B, 1, 2 * L, count) for name, count in keys.items()
    }


def test_calls_with_other_numbers_of_examples_or_heads_have_a_name_of_their_own() -> None:
    """As in RegionViT (2106.02689), which attends to regions, then to what is in each region."""

    class Attend(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]

    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend, self.fused = Attend(), nn.MultiheadAttention(D, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            for layer in (self.attend, lambda x: self.fused(x, x, x)[0]):
                x = layer(x)
                x = layer(x.reshape(3 * B, L // 3, D)).reshape(B, L, D)
            return x

    with recording(model := Regions()) as weights:
        model(torch.randn(B, L, D))
        model(torch.randn(B, L, D))
    assert {name: one.shape for name, one in weights.items()} == {
        "attend": (B, 1, 2 * L, L),
        "attend#2": (3 * B, 1, 2 * L // 3, L // 3),
        "fused": (B, 2, 2 * L, L),
        "fused#2": (3 * B, 2, 2 * L // 3, L // 3),
    }
