"""Attention whose scores depend on the weights of earlier steps, as in pointer networks (1704.04368)."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import recording

B, L, STEPS = 3, 6, 3


class Decoder(nn.Module):
    """Additive scores of queries, keys and the sum of the weights so far."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_query, self.of_key = nn.Linear(size, size), nn.Linear(size, size)
        self.of_coverage, self.score = nn.Linear(1, size), nn.Linear(size, 1)

    def forward(self, x: Tensor) -> Tensor:
        query, coverage, expected = x.mean(1), x.new_zeros(B, L), []
        for _ in range(STEPS):
            features = self.of_query(query)[:, None] + self.of_key(x) + self.of_coverage(coverage[..., None])
            weights = self.score(torch.tanh(features)).squeeze(-1).softmax(1)
            expected.append(weights.detach())
            query, coverage = (weights[..., None] * x).sum(1), coverage + weights
        self.expected = torch.stack(expected, 1)
        return query


@pytest.mark.parametrize("size", [4, 64])
def test_every_step_is_recorded(size: int) -> None:
    with recording(model := Decoder(size)) as weights:
        model(torch.randn(B, L, size))
    assert list(weights) == [""] and torch.equal(weights[""][:, 0], model.expected)


SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added": lambda scores, coverage: scores + 0.3 * coverage,
    "subtracted": lambda scores, coverage: scores - 0.3 * coverage,
    "first": lambda scores, coverage: 0.3 * coverage + scores,
}


@pytest.mark.parametrize("name", SCORES)
def test_coverage_is_a_part_of_the_scores(name: str) -> None:
    class Penalized(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            query, coverage, expected = x.mean(1), x.new_zeros(B, L), []
            for _ in range(STEPS):
                weights = SCORES[name]((x * query[:, None]).sum(-1), coverage).softmax(1)
                expected.append(weights.detach())
                query, coverage = (weights[..., None] * x).sum(1), coverage + weights
            self.expected = torch.stack(expected, 1)
            return query

    with recording(model := Penalized()) as weights:
        model(torch.randn(B, L, 4))
    assert list(weights) == [""] and torch.equal(weights[""][:, 0], model.expected)
