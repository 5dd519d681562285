"""Weights that no softmax has made, that a norm changes, or that an exported program computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import FromFunction

from attention_lab.attention import recording

B, H, L, D = 3, 2, 6, 8


def sparsemax(scores: Tensor) -> Tensor:
    """Martins and Astudillo (1602.02068), algorithm 1, over the last dimension."""
    ordered = scores.sort(-1, descending=True).values
    ranks = torch.arange(1, scores.shape[-1] + 1)
    support = 1 + ranks * ordered > ordered.cumsum(-1)
    count = support.sum(-1, keepdim=True)
    threshold = ((ordered * support).sum(-1, keepdim=True) - 1) / count
    return (scores - threshold).clamp(min=0)


class Sparsemax(torch.autograd.Function):
    """The same with a gradient of its own, as libraries have it."""

    @staticmethod
    def forward(context: Any, scores: Tensor) -> Tensor:
        return sparsemax(scores)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class Model(nn.Module):
    """Heads of products, and a query for each example with additive scores."""

    def __init__(self, normalizer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.normalizer, self.num_heads = normalizer, H
        self.score, self.dropout = nn.Linear(D, 1), nn.Dropout(0.5)

    def additive(self, x: Tensor) -> Tensor:
        weights = self.normalizer(3 * self.score(x.tanh()).squeeze(-1))
        self.pooled = weights.detach()
        return torch.bmm(weights.unsqueeze(1), x)

    def forward(self, x: Tensor) -> Tensor:
        q = x.unflatten(-1, (H, D // H)).transpose(1, 2)
        weights = self.normalizer(q @ q.mT)
        self.expected = weights.detach()
        return (self.dropout(weights) @ q).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("normalizer", [sparsemax, Sparsemax.apply])
def test_sparsemax(normalizer: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model, x = Model(normalizer), torch.randn(B, L, D, requires_grad=True)
    for train in (False, True):
        torch.manual_seed(1)
        plain = model.train(train)(x)
        torch.manual_seed(1)
        with recording(model) as weights, recording(model, 1, heads=[1], queries=[2]) as some:
            assert torch.equal(model(x), plain)
        assert list(weights) == [""] and torch.equal(weights[""], model.expected)
        assert (weights[""] == 0).any() and torch.equal(weights.mask(""), weights[""] > 0)
        assert torch.equal(some[""], weights[""][1:2, 1:, 2:3])


def test_sparsemax_of_additive_scores() -> None:
    class One(Model):
        num_heads = None

        def forward(self, x: Tensor) -> Tensor:
            self.num_heads = None
            return self.additive(x)

    with recording(model := One(sparsemax)) as weights:
        model(torch.randn(B, L, D))
    assert torch.equal(weights[""][:, 0, 0], model.pooled)


def test_products_that_do_not_sum_to_one_are_no_weights() -> None:
    class Squares(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).square() @ x + (x @ x.mT - 1) @ x

    with recording(model := Squares()) as weights:
        model(torch.randn(B, L, D))
    assert not weights


def test_exponentials_multiplied_with_a_mask() -> None:
    """A masked softmax: also if the mask has the shape of the scores."""

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            powers = torch.exp(x @ x.mT) * torch.ones(B, L, L).tril()
            weights = powers / (powers.sum(dim=-1, keepdim=True) + 1e-9)
            self.expected = weights.detach()
            return weights @ x

    with recording(model := Masked()) as weights:
        model(torch.randn(B, L, D))
    assert torch.equal(weights[""][:, 0], model.expected)


DIVISIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "divided": torch.divide,
    "reciprocal": lambda powers, total: powers * total.reciprocal(),
    "inverse": lambda powers, total: powers * (1 / total),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_exponentials_divided_in_other_ways(name: str) -> None:
    class Divided(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            powers = torch.exp(torch.linalg.matmul(x, x.mT))
            weights = DIVISIONS[name](powers, powers.sum(-1, keepdim=True))
            self.expected = weights.detach()
            return torch.linalg.matmul(weights, x) + powers @ x

    with recording(model := Divided()) as weights:
        model(torch.randn(B, L, D))
    assert list(weights) == [""] and torch.equal(weights[""][:, 0], model.expected)


def test_a_matrix_times_a_vector() -> None:
    class Pooled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.mv(x.T, torch.mv(x, x[0])[None].softmax(1)[0])

    x = torch.randn(L, D)
    with recording(model := Pooled()) as weights:
        model(x)
    assert torch.allclose(weights[""][0, 0, 0], (x @ x[0]).softmax(0))


def test_heads_that_a_norm_mixes() -> None:
    """DeepViT (2103.11886): the weights are those that multiply the values."""

    class Reattention(nn.Module):
        def __init__(self, norm: nn.Module) -> None:
            super().__init__()
            self.norm, self.num_heads = norm, H

        def forward(self, x: Tensor) -> Tensor:
            q = x.unflatten(-1, (H, D // H)).transpose(1, 2)
            weights = (q @ q.mT).softmax(-1)
            if isinstance(self.norm, nn.LayerNorm):
                weights = self.norm(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            else:
                weights = self.norm(weights)
            self.expected = weights.detach()
            return (weights @ q).transpose(1, 2).flatten(2)

    for norm in (nn.LayerNorm(H), nn.BatchNorm2d(H)):
        with recording(model := Reattention(norm)) as weights:
            model(torch.randn(B, L, D))
        assert torch.equal(weights[""], model.expected)


MIXTURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "einsum": lambda weights, matrix: torch.einsum("bhqk,hg->bgqk", weights, matrix),
    "matmul": lambda weights, matrix: (weights.permute(0, 3, 2, 1) @ matrix).permute(0, 3, 2, 1),
    "linear": lambda weights, matrix: F.linear(weights.permute(0, 2, 3, 1), matrix.T).permute(0, 3, 1, 2),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_heads_mixed_after_dropout(name: str) -> None:
    """As DeepViT does in some implementations; the weights are those without dropout."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix, self.dropout, self.num_heads = nn.Parameter(torch.randn(H, H)), nn.Dropout(0.5), H

        def forward(self, x: Tensor) -> Tensor:
            q = x.unflatten(-1, (H, D // H)).transpose(1, 2)
            weights = (q @ q.mT).softmax(-1)
            self.expected = MIXTURES[name](weights.detach(), self.matrix.detach())
            return (MIXTURES[name](self.dropout(weights), self.matrix) @ q).transpose(1, 2).flatten(2)

    model, x = Mixed(), torch.randn(B, L, D)
    torch.manual_seed(0)
    plain = model(x)
    torch.manual_seed(0)
    with recording(model) as weights:
        assert torch.equal(model(x), plain)
    assert list(weights) == [""] and torch.allclose(weights[""], model.expected)


def test_slots_divided_by_their_sum() -> None:
    """Slot attention (2006.15055), with `F.normalize`."""

    class Slots(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = (x[:, :2] @ x.mT).softmax(1) + 1e-8
            return F.normalize(weights, p=1, dim=-1) @ x

    with recording(model := Slots()) as weights:
        model(torch.randn(B, L, D))
    assert weights[""].shape == (B, 1, 2, L)
    assert torch.allclose(weights[""].sum(-1), torch.ones(B, 1, 2))


@pytest.mark.parametrize("decomposed", [False, True])
def test_an_exported_program(decomposed: bool) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = F.dropout((x @ x.mT / 3).softmax(-1), 0.1, self.training) @ x
            return torch.einsum("bqk,bkd->bqd", F.softmax(torch.einsum("bqd,bkd->bqk", x, x), -1), x)

    model, x = Two().eval(), torch.randn(B, L, D)
    program = torch.export.export(model, (x,))
    exported = (program.run_decompositions() if decomposed else program).module()
    plain = exported(x)
    with recording(model) as want:
        model(x)
    with recording(exported) as weights:
        assert torch.equal(exported(x), plain)
    assert list(weights) == list(want) == ["", "#2"]
    assert all(torch.allclose(weights[name], want[name], atol=1e-6) for name in want)


def test_a_graph_with_several_heads_and_no_batch() -> None:
    """Dense graph attention (1710.10903), its heads in the last dimension."""

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.n_heads = nn.Linear(2 * D, 1, bias=False), H

        def forward(self, x: Tensor) -> Tensor:
            pairs = torch.cat([x[:, None].expand(L, L, H, D), x.expand(L, L, H, D)], -1)
            scores = F.leaky_relu(self.score(pairs)).squeeze(-1)
            weights = scores.masked_fill(torch.ones(L, L, 1).tril() == 0, -torch.inf).softmax(dim=1)
            self.expected = weights.detach()
            return torch.einsum("ijh,jhf->ihf", weights, x)

    with recording(model := Graph()) as weights:
        model(torch.randn(L, H, D))
    assert torch.equal(weights[""][0], model.expected.permute(2, 0, 1))


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("softmax", [F.softmax, nn.Softmax(), lambda x: F.log_softmax(x).exp()])
def test_a_softmax_over_the_dimension_that_torch_chooses(softmax: Callable[[Tensor], Tensor]) -> None:
    """As in tutorials for old versions of torch: the second of two, and the first of three."""

    def of_two(x: Tensor) -> Tensor:
        return torch.bmm(softmax((x[:, :1] * x).sum(2)).unsqueeze(1), x)

    def of_three(x: Tensor) -> Tensor:
        return softmax((x @ x.mT).permute(2, 0, 1)).permute(1, 2, 0) @ x

    x = torch.randn(3, 5, 4)
    for attend, queries in ((of_two, 1), (of_three, 5)):
        with recording(model := FromFunction(attend)) as weights:
            model(x)
        expected = (x[:, :queries] @ x.mT).softmax(-1)
        assert torch.allclose(weights[""][:, 0], expected, atol=1e-6)
