import pytest

from attention_lab.data.specs.option_checks import (
    check_at_least,
    check_batch_size,
    check_choice,
    check_fractions,
)
from attention_lab.errors import LabError


@pytest.mark.parametrize(
    "fractions", [(0.8, 0.2), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1), (0, 0.5, 0.5), ("a", "b", "c"), 0.8]
)
def test_other_fractions_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(LabError, match=r"data\.fractions=\[.*such as \[0\.8,0\.1,0\.1\]"):
        check_fractions(fractions)


def test_a_part_of_nothing_is_refused_where_every_part_is_needed() -> None:
    check_fractions([0.5, 0.5, 0])
    with pytest.raises(LabError, match="each above 0"):
        check_fractions([0.5, 0.5, 0], every_split=True)


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None, float("nan")])
def test_a_count_must_be_whole_and_large_enough(value: int) -> None:
    with pytest.raises(LabError, match=rf"data\.size={value}: give a whole number of at least 1"):
        check_at_least(1, size=value)


def test_batches_may_be_of_one_example_or_of_all() -> None:
    for size in (1, None):
        check_batch_size(size)
    with pytest.raises(LabError, match=r"data\.batch_size=0: give a whole number of at least 1"):
        check_batch_size(0)


def test_a_quantity_can_be_a_fraction() -> None:
    check_at_least(0.0, noise=0.5)
    with pytest.raises(LabError, match=r"data\.noise=-0\.5: give a number of at least 0"):
        check_at_least(0.0, noise=-0.5)


def test_a_wrong_choice_is_answered_by_the_right_ones() -> None:
    with pytest.raises(LabError, match=r"data\.unit=letters: choose one of characters, words"):
        check_choice(["characters", "words"], unit="letters")
