"""Hand-written multi-query attention (1911.02150), whose values have no dimension of heads."""

import pytest
import torch
from torch import Tensor, nn

from attention_lab import recording

HEADS, SIZE = 4, 8


class MultiQuery(nn.Module):
    """Self-attention whose heads are before or behind the queries, or share a dimension with them."""

    def __init__(self, layout: str, joined: str) -> None:
        super().__init__()
        self.layout, self.joined, self.num_heads = layout, joined, HEADS
        self.query = nn.Linear(16, HEADS * SIZE)
        self.key, self.value = nn.Linear(16, SIZE), nn.Linear(16, SIZE)
        self.weights = torch.empty(0)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """The contexts; keeps the weights `[B, H, Q, K]`."""
        query, key, value = self.query(x).unflatten(-1, (HEADS, SIZE)), self.key(x), self.value(x)
        if self.layout == "heads first":
            scores = torch.einsum("bqhd,bkd->bhqk", query, key)
        else:
            scores = torch.einsum("bqhd,bkd->bqhk", query, key)
        weights = scores.masked_fill(~seen[:, None, None], float("-inf")).softmax(-1)
        self.weights = weights if self.layout == "heads first" else weights.transpose(1, 2)
        if self.joined:
            return weights.flatten(1, 2) @ value
        how = "bhqk,bkd->bqhd" if self.layout == "heads first" else "bqhk,bkd->bqhd"
        return torch.einsum(how, weights, value)


@pytest.mark.parametrize("joined", ["", "joined"])
@pytest.mark.parametrize(
    ("layout", "length"), [("heads first", 6), ("heads first", HEADS), ("queries first", 6)]
)
def test_heads_and_queries_of_shared_values(layout: str, length: int, joined: str) -> None:
    torch.manual_seed(0)
    model, x = MultiQuery(layout, joined), torch.randn(3, length, 16)
    seen = torch.arange(length) < torch.tensor([[length], [2], [1]])
    with recording(model) as weights:
        model(x, seen)
    assert torch.equal(weights[""], model.weights)
    assert torch.equal(weights.mask(""), seen[:, None, None].expand(3, HEADS, length, length))
