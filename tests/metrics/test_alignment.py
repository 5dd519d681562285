import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.errors import LabError
from attention_lab.metrics import AlignmentAccuracy, AlignmentErrorRate, AlignmentMass

KINDS = [AlignmentAccuracy, AlignmentErrorRate, AlignmentMass]
Kind = type[AlignmentAccuracy | AlignmentErrorRate | AlignmentMass]
# [B 2, H 1, T 3, S 3]
WEIGHTS = torch.tensor(
    [
        [[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.5, 0.0]]],
        [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]]],
    ]
)
ALIGNMENT = torch.tensor([[0, 1, -1], [2, -1, -1]])


def test_alignment_by_hand() -> None:
    accuracy, mass = AlignmentAccuracy(), AlignmentMass()
    accuracy.update(WEIGHTS, ALIGNMENT)
    mass.update(WEIGHTS, ALIGNMENT)
    assert accuracy.compute().item() == pytest.approx(2 / 3)
    assert mass.compute().item() == pytest.approx((0.7 + 0.3 + 1.0) / 3)


@pytest.mark.parametrize("kind", KINDS)
def test_alignment_of_two_batches_or_ranks_is_that_of_one(kind: Kind) -> None:
    whole, batches, rank, other = kind(), kind(), kind(), kind()
    whole.update(WEIGHTS, ALIGNMENT)
    batches.update(WEIGHTS[:1], ALIGNMENT[:1])
    batches.update(WEIGHTS[1:], ALIGNMENT[1:])
    rank.update(WEIGHTS[:1], ALIGNMENT[:1])
    other.update(WEIGHTS[1:], ALIGNMENT[1:])
    rank.merge_state(other)
    torch.testing.assert_close(batches.compute(), whole.compute())
    torch.testing.assert_close(rank.compute(), whole.compute())


@pytest.mark.parametrize("poison", [math.nan, 1e9])
def test_steps_without_gold_do_not_matter_even_when_poisoned(poison: float) -> None:
    poisoned = WEIGHTS.masked_fill((ALIGNMENT < 0)[:, None, :, None], poison)
    for kind, expected in zip(KINDS, (2 / 3, 1 / 3, 2 / 3), strict=True):
        metric = kind()
        metric.update(poisoned, ALIGNMENT)
        assert metric.compute().item() == pytest.approx(expected)


def test_equal_weights_point_at_the_first() -> None:
    accuracy = AlignmentAccuracy()
    accuracy.update(torch.full((1, 1, 2, 4), 0.25), torch.tensor([[0, 1]]))
    assert accuracy.compute().item() == 0.5


def test_no_gold_at_all_is_not_a_number() -> None:
    for metric in (kind() for kind in KINDS):
        metric.update(WEIGHTS, torch.full((2, 3), -1))
        assert metric.compute().isnan()


def test_half_precision_weights_are_summed_in_single() -> None:
    mass = AlignmentMass()
    mass.update(
        torch.full((1, 1, 5000, 2), 0.5, dtype=torch.bfloat16), torch.zeros(1, 5000, dtype=torch.int64)
    )
    assert mass.compute().item() == 0.5


@pytest.mark.parametrize("weights", [WEIGHTS[:, :, :2], WEIGHTS[:1]])
def test_shapes_that_do_not_fit_are_refused(weights: torch.Tensor) -> None:
    for metric in (kind() for kind in KINDS):
        with pytest.raises(Exception, match="alignment"):
            metric.update(weights, ALIGNMENT)


@pytest.mark.parametrize("kind", KINDS)
def test_each_head_has_its_own_value(kind: Kind) -> None:
    other = torch.rand(WEIGHTS.shape).softmax(-1)
    both, first, second = kind(heads=2), kind(), kind()
    both.update(torch.cat([WEIGHTS, other], 1), ALIGNMENT)
    first.update(WEIGHTS, ALIGNMENT)
    second.update(other, ALIGNMENT)
    torch.testing.assert_close(both.compute(), torch.stack([first.compute(), second.compute()]))
    with pytest.raises(ValueError, match=rf"{kind.__name__} is for 2 heads, but the weights have 1"):
        both.update(WEIGHTS, ALIGNMENT)


def test_error_rate_by_hand() -> None:
    # A = {(0, 0), (1, 2)} and {(0, 2)} at the aligned steps, S = {(0, 0), (1, 1)} and {(0, 2)}, P = S
    metric = AlignmentErrorRate()
    metric.update(WEIGHTS, ALIGNMENT)
    assert metric.compute().item() == pytest.approx(1 - (2 + 2) / (3 + 3))
    # at a threshold of 0.3, (1, 1) is a link too
    metric = AlignmentErrorRate(threshold=0.3)
    metric.update(WEIGHTS, ALIGNMENT)
    assert metric.compute().item() == pytest.approx(1 - (3 + 3) / (4 + 3))


def test_possible_links_are_no_mistakes_and_need_not_be_made() -> None:
    # (1, 2) of the first example is possible, and so is (1, 0) of the second, a step without sure link
    possible = torch.zeros(2, 3, 3, dtype=torch.bool)
    possible[0, 1, 2] = possible[1, 1, 0] = possible[0, 0, 1] = True
    metric = AlignmentErrorRate()
    metric.update(WEIGHTS, ALIGNMENT, possible)
    # A = {(0, 0), (1, 2)}, {(0, 2), (1, 0)}; |A and S| = 2, |A and P| = 4, |A| = 4, |S| = 3
    assert metric.compute().item() == pytest.approx(1 - (2 + 4) / (4 + 3))


def test_spread_attention_makes_no_link() -> None:
    metric = AlignmentErrorRate()
    metric.update(torch.full((1, 1, 2, 3), 1 / 3), torch.tensor([[0, 1]]))
    assert metric.compute().item() == 1.0
    with pytest.raises(ValueError, match=r"above 0, not 0\.0"):
        AlignmentErrorRate(threshold=0.0)


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=4, max_size=4), min_size=1, max_size=6),
    st.data(),
    st.floats(0.01, 0.99),
)
def test_the_error_rate_lies_in_its_bounds_and_is_that_of_sets(
    scores: list[list[float]], data: st.DataObject, threshold: float
) -> None:
    weights = torch.tensor(scores).softmax(-1)
    gold = data.draw(st.lists(st.integers(-1, 3), min_size=len(scores), max_size=len(scores)))
    flags = st.lists(st.booleans(), min_size=4 * len(scores), max_size=4 * len(scores))
    possible = torch.tensor(data.draw(flags)).view(-1, 4)
    metric = AlignmentErrorRate(threshold=threshold)
    metric.update(weights[None, None], torch.tensor([gold]), possible[None])
    rate = metric.compute().item()
    sure_links = {(t, j) for t, j in enumerate(gold) if j >= 0}
    possible_links = sure_links | {(t, j) for t, j in possible.nonzero().tolist()}
    steps = {t for t, _ in possible_links}
    made = {(t, j) for t, j in (weights >= threshold).nonzero().tolist() if t in steps}
    if made or sure_links:
        common = len(made & sure_links) + len(made & possible_links)
        assert 0 <= rate <= 1
        assert rate == pytest.approx(1 - common / (len(made) + len(sure_links)), abs=1e-6)
    else:
        assert math.isnan(rate)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.floats(0.51, 1))
def test_attention_to_the_gold_alone_has_no_error(gold: list[int], weight: float) -> None:
    alignment = torch.tensor([gold])
    weights = torch.full((1, 1, len(gold), 5), (1 - weight) / 4)
    weights.scatter_(-1, alignment[:, None, :, None], weight)
    metric = AlignmentErrorRate()
    metric.update(weights, alignment)
    assert metric.compute().item() == 0.0


def test_several_gold_positions_count_together() -> None:
    places = torch.tensor([[[1, 0], [0, -1], [-1, -1]], [[2, 1], [-1, -1], [1, 0]]])
    expected = {AlignmentAccuracy: 2 / 4, AlignmentMass: (0.9 + 0.1 + 1.0 + 0.4) / 4}
    # links of one half or more: right in (0, 0) and (1, 0), wrong in (0, 1) and (1, 2); four are wanted
    expected[AlignmentErrorRate] = 1 - (2 + 2) / (4 + 4)
    for kind, value in expected.items():
        metric = kind()
        metric.update(WEIGHTS, places)
        assert metric.compute().item() == pytest.approx(value)


@pytest.mark.parametrize("kind", KINDS)
def test_one_gold_position_is_the_case_of_several(kind: Kind) -> None:
    one, several = kind(), kind()
    one.update(WEIGHTS, ALIGNMENT)
    several.update(WEIGHTS, torch.stack([ALIGNMENT, torch.full_like(ALIGNMENT, -1)], -1))
    torch.testing.assert_close(one.compute(), several.compute())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("kind", KINDS)
def test_an_alignment_is_whole_numbers(kind: Any) -> None:
    """A matrix of links, true or false, would be read as positions 0 and 1."""
    links = torch.ones(2, 3, 3, dtype=torch.bool)
    for alignment, kept in ((links, "torch.bool"), (ALIGNMENT.float(), "torch.float32"), ([[0]], "a list")):
        with pytest.raises(TypeError, match=rf"integer tensor of source positions, -1 for none, not {kept}$"):
            kind().update(WEIGHTS, alignment)
    for weights, error, complaint in (
        ([1.0], TypeError, "^weights must be a tensor, not a list$"),
        (WEIGHTS[0], ValueError, r"^weights must be \[B, H, Q, K\], got \[1, 3, 3\]$"),
    ):
        with pytest.raises(error, match=complaint):
            kind().update(weights, ALIGNMENT)
    with pytest.raises(LabError, match=r"^heads must be at least 1, got 0$"):
        kind(0)
    short, long = kind(), kind()
    short.update(WEIGHTS, ALIGNMENT.int())
    long.update(WEIGHTS, ALIGNMENT)
    assert short.compute().equal(long.compute())
