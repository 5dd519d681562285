import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.metrics import AlignmentAccuracy, AlignmentMass, AttentionEntropy, attention_entropy

WEIGHTS = torch.tensor(
    [[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]]]
)
ALIGNMENT = torch.tensor([[0, 1, -1], [2, -1, -1]])


def test_alignment_by_hand() -> None:
    accuracy, mass = AlignmentAccuracy(), AlignmentMass()
    accuracy.update(WEIGHTS, ALIGNMENT)
    mass.update(WEIGHTS, ALIGNMENT)
    assert accuracy.compute().item() == pytest.approx(2 / 3)
    assert mass.compute().item() == pytest.approx((0.7 + 0.3 + 1.0) / 3)


@pytest.mark.parametrize("kind", [AlignmentAccuracy, AlignmentMass])
def test_alignment_of_two_batches_or_ranks_is_that_of_one(
    kind: type[AlignmentAccuracy | AlignmentMass],
) -> None:
    whole, batches, rank, other = kind(), kind(), kind(), kind()
    whole.update(WEIGHTS, ALIGNMENT)
    batches.update(WEIGHTS[:1], ALIGNMENT[:1])
    batches.update(WEIGHTS[1:], ALIGNMENT[1:])
    rank.update(WEIGHTS[:1], ALIGNMENT[:1])
    other.update(WEIGHTS[1:], ALIGNMENT[1:])
    rank.merge_state(other)
    torch.testing.assert_close(batches.compute(), whole.compute())
    torch.testing.assert_close(rank.compute(), whole.compute())


def test_steps_without_gold_do_not_matter_even_when_poisoned() -> None:
    poisoned = WEIGHTS.masked_fill((ALIGNMENT < 0).unsqueeze(-1), math.nan)
    for metric, expected in ((AlignmentAccuracy(), 2 / 3), (AlignmentMass(), 2 / 3)):
        metric.update(poisoned, ALIGNMENT)
        assert metric.compute().item() == pytest.approx(expected)


def test_equal_weights_point_at_the_first() -> None:
    accuracy = AlignmentAccuracy()
    accuracy.update(torch.full((1, 2, 4), 0.25), torch.tensor([[0, 1]]))
    assert accuracy.compute().item() == 0.5


def test_no_gold_at_all_is_not_a_number() -> None:
    for metric in (AlignmentAccuracy(), AlignmentMass()):
        metric.update(WEIGHTS, torch.full((2, 3), -1))
        assert metric.compute().isnan()


def test_half_precision_weights_are_summed_in_single() -> None:
    mass = AlignmentMass()
    mass.update(torch.full((1, 5000, 2), 0.5, dtype=torch.bfloat16), torch.zeros(1, 5000, dtype=torch.int64))
    assert mass.compute().item() == 0.5


@pytest.mark.parametrize("weights", [WEIGHTS[:, :2], WEIGHTS[:1]])
def test_shapes_that_do_not_fit_are_refused(weights: torch.Tensor) -> None:
    for metric in (AlignmentAccuracy(), AlignmentMass()):
        with pytest.raises(Exception, match="alignment"):
            metric.update(weights, ALIGNMENT)


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


def test_mean_entropy_of_each_head() -> None:
    uniform, sharp = [0.5, 0.5], [1.0, 0.0]
    weights = torch.tensor([[[uniform, sharp], [sharp, sharp]], [[uniform, uniform], [sharp, uniform]]])
    metric = AttentionEntropy(heads=2)
    metric.update(weights)
    torch.testing.assert_close(metric.compute(), math.log(2) * torch.tensor([3 / 4, 1 / 4]))
    metric.reset()
    metric.update(weights[:1], torch.tensor([[True, False]]))
    metric.update(weights[1:], torch.tensor([[False, True]]))
    torch.testing.assert_close(metric.compute(), math.log(2) * torch.tensor([1.0, 1 / 2]))


def test_masked_rows_do_not_matter_even_when_poisoned() -> None:
    metric = AttentionEntropy()
    metric.update(torch.tensor([[[[0.5, 0.5], [math.nan, 1e9]]]]), torch.tensor([[True, False]]))
    torch.testing.assert_close(metric.compute(), torch.tensor(math.log(2)))


def test_another_number_of_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="2 heads for an entropy of 1 heads"):
        AttentionEntropy().update(torch.full((1, 2, 1, 1), 1.0))
