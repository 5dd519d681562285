"""Parts of weights that are multiplied with values one by one, or combined first."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import recording

B, H, L, D = 3, 2, 6, 4
Attend = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
STYLES: dict[str, Attend] = {}


def style(attend: Attend) -> Attend:
    """Add a function from weights `[B, H, L, L]` and values `[B, H, L, D]` to a context and the weights used.

    Heads, examples or queries that it computes one by one are joined along the queries.
    """
    STYLES[attend.__name__] = attend
    return attend


@style
def heads_one_by_one(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    contexts = [weights[:, head] @ values[:, head] for head in range(H)]
    return torch.stack(contexts, 1), weights.flatten(1, 2)[:, None]


@style
def heads_one_by_one_after_a_gate(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights * 0.5
    return heads_one_by_one(weights, values)


@style
def examples_one_by_one(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    contexts = [weights[example].bmm(values[example]) for example in range(B)]
    return torch.stack(contexts), weights.transpose(0, 1).reshape(H, 1, B * L, L)


@style
def queries_one_by_one(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    weights, values = weights[:, 0], values[:, 0]
    contexts = [(weights[:, query, :, None] * values).sum(1) for query in range(L)]
    return torch.stack(contexts, 1), weights[:, None]


@style
def difference_of_heads(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """2410.05258, with the two maps in the dimension of the heads."""
    weights = (weights[:, 0] - 0.3 * weights[:, 1]).unsqueeze(1)
    return weights @ values, weights


@style
def slices_of_a_masked_map(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights * torch.ones(L, L).tril()
    context = weights[..., 2:] @ values[..., 2:, :] + weights[..., :2] @ values[..., :2, :]
    return context, weights.flatten(0, 1)[:, None]


@style
def copied(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Weights times values, then their share times the words of the source (1704.04368): one attention."""
    return weights @ values + (weights * 0.1) @ values.round(), weights.flatten(0, 1)[:, None]


@style
def copied_first(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    copied = weights * 0.1
    return copied @ values.round() + weights @ values, copied.flatten(0, 1)[:, None]


@style
def scores_added_after_the_softmax(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights + values @ values.mT
    return weights @ values, weights


class Model(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        context, used = self.attend((x @ x.mT).softmax(-1), x)
        self.expected = used.detach()
        return context


@pytest.mark.parametrize("name", STYLES)
def test_parts(name: str) -> None:
    torch.manual_seed(0)
    model, x = Model(STYLES[name]), torch.randn(B, H, L, D)
    plain = model(x)
    with recording(model) as weights:
        assert torch.equal(model(x), plain)
    assert list(weights) == [""]
    assert torch.equal(weights[""].reshape(model.expected.shape), model.expected)
    assert torch.equal(weights.mask(""), weights[""] != 0)
