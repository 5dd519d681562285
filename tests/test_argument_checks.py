import math
from typing import Any

import numpy as np
import pytest

from attention_lab.argument_checks import check_counts, check_number
from attention_lab.errors import LabError


@pytest.mark.parametrize(
    ("number", "limits", "complaint"),
    [
        ("3", {"above": 0}, "must be a number, not '3'"),
        (None, {"least": 1, "whole": True}, "must be a whole number, not None"),
        (8.0, {"least": 1, "whole": True}, "must be a whole number, not 8.0"),
        (True, {"least": 0}, "must be a number, not True"),
        (0, {"least": 1, "whole": True}, "must be at least 1, got 0"),
        (0.0, {"above": 0}, "must be above 0, got 0.0"),
        (math.nan, {"above": 0}, "must be above 0, got nan"),
        (math.nan, {"least": 0}, "must be at least 0, got nan"),
    ],
)
def test_a_number_out_of_range_is_named(number: Any, limits: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LabError) as error:
        check_number("width", number, **limits)
    assert str(error.value) == f"width {complaint}"
    check_number("width", np.int64(3), **limits)


def test_counts_are_named_with_their_part() -> None:
    check_counts("model", 1, layers=1, heads=2)
    with pytest.raises(LabError, match=r"^model\.heads must be at least 1, got 0$"):
        check_counts("model", 1, layers=1, heads=0)
