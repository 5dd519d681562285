"""Exponentials of scores that are multiplied with values, and divided by their sum afterwards."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, einsum, nn

from attention_lab.attention import recording

B, H, L, D = 3, 2, 6, 4
STYLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matrices": lambda e, v: (e @ v) / e.sum(-1, keepdim=True),
    "a small number": lambda e, v: torch.div(e.matmul(v), e.sum(dim=-1, keepdim=True) + 1e-6),
    "einsum": lambda e, v: einsum("bhqk,bhkd->bhqd", e, v) / e.sum(-1).unsqueeze(-1),
    "the sum first": lambda e, v: (lambda total: e @ v / total)(torch.sum(e, -1, keepdim=True)),
    "in place": lambda e, v: (e @ v).div_(e.sum(-1)[..., None]),
    "several values": lambda e, v: (e @ v) / e.sum(-1, keepdim=True) + e @ (2 * v),
}


class Layer(nn.Module):
    num_heads = H

    def __init__(self, attend: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        scores = (x @ x.mT / 2).masked_fill(torch.ones(L, L).triu(1).bool(), -torch.inf)
        self.expected = scores.softmax(-1).detach()
        return self.attend((scores - scores.amax(-1, keepdim=True)).exp(), x)


@pytest.mark.parametrize("name", STYLES)
def test_the_weights_are_the_exponentials_divided_by_the_sum(name: str) -> None:
    model, x = Layer(STYLES[name]), torch.randn(B, H, L, D)
    plain = model(x)
    with recording(model) as weights:
        assert torch.equal(model(x), plain)
    assert list(weights) == [""] and torch.allclose(weights[""], model.expected, atol=1e-5)
    assert torch.equal(weights.mask(""), torch.ones(L, L).tril().bool().expand(B, H, L, L))


def chunks(e: Tensor, v: Tensor) -> Tensor:
    """In parts, as in 2112.05682: none of the products has all keys."""
    context, total = e[..., :3] @ v[..., :3, :], e[..., :3].sum(-1, keepdim=True)
    return (context + e[..., 3:] @ v[..., 3:, :]) / (total + e[..., 3:].sum(-1, keepdim=True))


def chunks_in_place(e: Tensor, v: Tensor) -> Tensor:
    first = e[..., :3].clone()
    context, total = first @ v[..., :3, :], first.sum(-1, keepdim=True)
    context += e[..., 3:] @ v[..., 3:, :]
    return context / (total + e[..., 3:].sum(-1, keepdim=True))


def of_other_exponentials(e: Tensor, v: Tensor) -> Tensor:
    return (e @ v) / (2 * e).sum(-1, keepdim=True)


def of_linear_attention(e: Tensor, v: Tensor) -> Tensor:
    """2009.14794, with exponentials as features."""
    keys, queries = v.exp(), (v / 2).exp()
    context = queries @ (keys.mT @ v) / (queries @ keys.sum(-2)[..., None])
    return context + (queries @ (keys.mT @ v)) / queries.sum(-2, keepdim=True)


@pytest.mark.parametrize("attend", [chunks, chunks_in_place, of_other_exponentials, of_linear_attention])
def test_other_quotients(attend: Callable[[Tensor, Tensor], Tensor]) -> None:
    with recording(model := Layer(attend)) as weights:
        model(torch.randn(B, H, L, D))
    assert not weights


def test_kernel_regression() -> None:
    class Smoother(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            kernel = torch.exp(-((x[:, None] - x) ** 2) / 2)
            self.expected = kernel / kernel.sum(-1, keepdim=True)
            return kernel @ y / kernel.sum(-1, keepdim=True)

    with recording(model := Smoother()) as weights:
        model(torch.randn(L), torch.randn(L, 1))
    assert torch.allclose(weights[""][0, 0], model.expected)
