"""What `show` says of weights that are none, and of its height."""

from typing import Any

import numpy as np
import pytest

import attention_lab
from attention_lab.errors import LabError

WEIGHTS = np.full((2, 3, 4), 0.25, np.float32)  # [H, Q, K]


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:show. weights outside 0 to 1 are clipped")
def test_a_warning_counts_what_is_no_weight(lost: float) -> None:
    """But not where a mask hides it, as in the rows of padding of torch's own attention."""
    weights, mask = WEIGHTS.copy(), np.ones((3, 4), bool)
    weights[:, 1, 2:] = lost
    with pytest.warns(match=r"^show: 4 NaN or infinite weights, first in 'example 1/attention': the page"):
        view = attention_lab.show(weights)
    (record,) = view.records.values()
    assert not np.isfinite(record.weights[:, 1, 2:]).any()
    mask[1, 2:] = False
    attention_lab.show(weights, mask=mask)
    mask[1, 2] = True
    with pytest.warns(match="^show: 1 NaN or infinite weight, first"):
        attention_lab.show(weights[:1], mask=mask)


@pytest.mark.parametrize("height", [0, -1, "300", float("nan"), True])
def test_a_height_is_a_number_of_pixels(height: Any) -> None:
    with pytest.raises(LabError, match=r"^height must be (at least 1, got|a number, not)"):
        attention_lab.show(WEIGHTS, height=height)
