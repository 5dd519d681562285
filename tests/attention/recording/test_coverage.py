"""Attention whose scores depend on the weights of earlier steps, as in pointer networks (1704.04368)."""

import torch
from torch import Tensor, nn

from attention_lab.attention import recording

B, L, D, STEPS = 3, 6, 4, 3


class Decoder(nn.Module):
    """Additive scores of queries, keys and the sum of the weights so far."""

    def __init__(self) -> None:
        super().__init__()
        self.of_query, self.of_key, self.of_coverage = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(1, D)
        self.score = nn.Linear(D, 1)

    def forward(self, x: Tensor) -> Tensor:
        query, coverage, expected = x.mean(1), x.new_zeros(B, L), []
        for _ in range(STEPS):
            features = self.of_query(query)[:, None] + self.of_key(x) + self.of_coverage(coverage[..., None])
            weights = self.score(torch.tanh(features)).squeeze(-1).softmax(1)
            expected.append(weights.detach())
            query, coverage = (weights[..., None] * x).sum(1), coverage + weights
        self.expected = torch.stack(expected, 1)
        return query


def test_every_step_is_recorded() -> None:
    with recording(model := Decoder()) as weights:
        model(torch.randn(B, L, D))
    assert list(weights) == [""] and torch.equal(weights[""][:, 0], model.expected)
