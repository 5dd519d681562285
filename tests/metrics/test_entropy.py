import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.metrics import attention_entropy


def test_entropy_by_hand() -> None:
    weights = torch.tensor(
        [[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]]
    )
    torch.testing.assert_close(attention_entropy(weights), torch.tensor([math.log(4), 0.0, math.log(2), 0.0]))


def test_entropy_leaves_masked_keys_out() -> None:
    weights = torch.tensor([[[0.5, 0.5, 1e9], [0.5, math.nan, 0.5]]])
    mask = torch.tensor([[[True, True, False], [True, False, True]]])
    torch.testing.assert_close(attention_entropy(weights, mask), torch.full((1, 2), math.log(2)))
    torch.testing.assert_close(
        attention_entropy(weights[..., :1, :], mask[0, 0]), torch.full((1, 1), math.log(2))
    )
    assert attention_entropy(torch.tensor([1.0, 0.0]), torch.tensor([True, True])) == 0  # as sparsemax gives


def test_entropy_of_weights_that_are_nan_is_nan() -> None:
    """Not 0, as if one key had all the weight."""
    weights = torch.tensor([[0.5, math.nan], [0.5, 0.5]])
    entropy = attention_entropy(weights)
    assert entropy[0].isnan() and entropy[1].item() == pytest.approx(math.log(2))
    assert attention_entropy(weights, torch.tensor([True, False]))[0].item() == pytest.approx(math.log(2) / 2)


def test_entropy_has_finite_gradients_at_zero() -> None:
    weights = torch.tensor([0.0, 1.0, 0.0], requires_grad=True)
    attention_entropy(weights).backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [0.0, -1.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_entropy_of_half_precision_is_single(dtype: torch.dtype) -> None:
    entropy = attention_entropy(torch.full((1024,), 1 / 1024, dtype=dtype))
    assert entropy.dtype == torch.float32
    assert entropy.item() == pytest.approx(math.log(1024), rel=1e-6)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=9))
def test_entropy_lies_between_zero_and_that_of_uniform(scores: list[float]) -> None:
    weights = torch.tensor(scores, dtype=torch.float64).softmax(-1)
    entropy = attention_entropy(weights).item()
    assert -1e-12 <= entropy <= math.log(len(scores)) + 1e-12
    expected = -math.fsum(w * math.log(w) for w in weights.tolist() if w > 0)
    assert entropy == pytest.approx(expected, abs=1e-12)
