"""The weight of the darkest colour."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.viz import rounded_top


@pytest.mark.parametrize(
    ("largest", "top"),
    [
        (0.15, 0.16),
        (0.5, 0.6),
        (0.501, 1.0),
        (1.3, 1.0),
        (0.1, 0.1),
        (0.0, 1.0),
        (0.02, 0.02),
        (0.0085, 0.01),
        (5e-324, 3e-308),  # the smallest number there is
    ],
)
def test_by_hand(largest: float, top: float) -> None:
    assert rounded_top([np.full((2, 3), largest), np.zeros((1, 1))]) == top


def test_nothing_to_go_by() -> None:
    assert (
        rounded_top([]) == rounded_top([np.zeros((0, 3))]) == rounded_top([np.array([[np.nan, np.inf]])]) == 1
    )


@given(st.floats(1e-6, 0.5))
def test_it_is_a_little_above_the_largest(largest: float) -> None:
    top = rounded_top([np.array([[largest]], np.float32)])
    assert largest * (1 - 1e-5) <= top <= 1.51 * largest
