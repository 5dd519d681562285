"""The masked softmax: values by hand, and what holds for any scores and masks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.attention import Softmax, masked_softmax
from attention_lab.errors import LabError


def test_values_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(3.0), 7.0]])
    mask = torch.tensor([[True, True, False]])
    assert torch.allclose(masked_softmax(scores, mask), torch.tensor([[0.25, 0.75, 0.0]]))


def test_a_larger_temperature_is_flatter() -> None:
    scores = torch.tensor([[0.0, 2.0 * math.log(3.0)]])
    assert torch.allclose(masked_softmax(scores, temperature=2.0), torch.tensor([[0.25, 0.75]]))
    entropies = [
        torch.special.entr(masked_softmax(scores, temperature=t)).sum() for t in (0.5, 1.0, 2.0, 8.0)
    ]
    assert entropies == sorted(entropies)


def test_a_row_without_a_key_is_zero_in_value_and_gradient() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[False, False, False], [True, False, True]])
    weights = masked_softmax(scores, mask)
    assert weights[0].tolist() == [0.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad((weights * torch.arange(6.0).view(2, 3)).sum(), scores)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert gradient.isfinite().all() and gradient[1, 0] != 0 and gradient[1, 1] == 0


def test_minus_infinity_counts_as_masked() -> None:
    scores = torch.tensor([[-torch.inf, -torch.inf], [-torch.inf, 3.0]], requires_grad=True)
    weights = masked_softmax(scores)
    assert weights.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    (gradient,) = torch.autograd.grad(weights.sum(), scores)
    assert gradient.isfinite().all()


@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 10.0), st.floats(-300, 300)
)
def test_rows_are_distributions_and_a_shift_changes_nothing(
    seed: int, queries: int, keys: int, temperature: float, shift: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, keys, generator=generator, dtype=torch.float64) * 5
    mask = torch.rand(queries, keys, generator=generator) > 0.5
    weights = masked_softmax(scores, mask, temperature)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    assert torch.allclose(weights.sum(-1), mask.any(-1).double())
    assert torch.allclose(masked_softmax(scores + shift, mask, temperature), weights, atol=1e-9)


def test_half_precision_neither_overflows_nor_changes_type() -> None:
    scores = torch.tensor([[6e4, 6e4, -6e4]], dtype=torch.float16)
    weights = masked_softmax(scores, torch.tensor([[True, True, True]]))
    assert weights.dtype == torch.float16 and weights.tolist() == [[0.5, 0.5, 0.0]]
    small = torch.tensor([[600.0, 600.0, -600.0]], dtype=torch.float16)
    assert masked_softmax(small, temperature=0.001).tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_must_be_positive(temperature: float) -> None:
    with pytest.raises(LabError, match=r"normalizer\.temperature must be above 0"):
        Softmax(temperature)
