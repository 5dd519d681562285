import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.metrics import Monotonicity, expected_positions, monotonicity


def test_expected_positions_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.3, 0.6], [0.0, 0.1, 0.1], [0.0, 0.0, 0.0]])
    expected = torch.tensor([0.5, 1.5, 1.5, math.nan])
    torch.testing.assert_close(expected_positions(weights), expected, equal_nan=True)
    assert expected_positions(torch.full((300,), 1 / 300, dtype=torch.bfloat16)).item() == pytest.approx(
        149.5
    )


def test_monotonicity_by_hand() -> None:
    # expected positions 0.5, 1.5, 1.5, 0: forward, stays, falls
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.3, 0.6], [0.25, 0.0, 0.75], [1.0, 0.0, 0.0]])
    assert monotonicity(weights).item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("order", "expected"), [([0, 1, 2, 3], 1), ([3, 2, 1, 0], 0), ([0, 0, 1, 1], 1), ([1, 3, 0, 2], 2 / 3)]
)
def test_monotonicity_of_alignments(order: list[int], expected: float) -> None:
    weights = torch.nn.functional.one_hot(torch.tensor(order)).float()
    assert monotonicity(weights).item() == pytest.approx(expected)


def test_flat_attention_stays() -> None:
    flat = torch.full((50, 1000), 1 / 1000) * (1 + 1e-6 * torch.rand(50, 1000))
    assert monotonicity(flat).item() == 1.0


def test_rows_without_weight_are_no_steps() -> None:
    weights = torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert monotonicity(weights).item() == 1.0
    assert monotonicity(weights[:2]).isnan()
    assert monotonicity(weights[:1]).isnan()


@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=2, max_size=8))
def test_there_and_back_is_every_step_that_moves_once(scores: list[list[float]]) -> None:
    weights = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    there, back = monotonicity(weights).item(), monotonicity(weights.flip(0)).item()
    assert 0 <= there <= 1
    places = [sum(j * weight for j, weight in enumerate(row)) for row in weights.tolist()]
    still = sum(abs(two - one) <= 1e-3 for one, two in pairwise(places))
    assert there + back == pytest.approx(1 + still / (len(scores) - 1), abs=1e-6)


def test_each_head_over_batches() -> None:
    up = torch.eye(3)
    first, second = torch.stack([up, up.flip(0)])[None], torch.stack([up, up])[None]
    metric = Monotonicity(heads=2)
    metric.update(first)
    metric.update(second)
    torch.testing.assert_close(metric.compute(), torch.tensor([1.0, 0.5]))
    with pytest.raises(ValueError, match="is for 2 heads, but the weights have 1"):
        metric.update(first[:, :1])


@pytest.mark.parametrize("poison", [math.nan, 1e9])
def test_only_steps_between_rows_that_count_do(poison: float) -> None:
    weights = torch.eye(4)[[0, 1, 0, 3]]
    weights[2] = poison
    metric = Monotonicity()
    metric.update(weights[None, None], torch.tensor([[True, True, False, True]]))
    assert metric.compute().item() == 1.0
    assert int(metric.denominator) == 1
