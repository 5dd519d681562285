import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from attention_lab.argument_checks import allowed_types, check_counts, check_number
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


@pytest.mark.parametrize(
    ("value", "annotation", "allowed"),
    [
        (3, float, ""),
        (True, int, "a whole number"),
        (1.0, int, "a whole number"),
        ("x", float | int | None, "a number or null"),
        ([1], Sequence[int] | None, ""),
        ([1], tuple[int, int], ""),
        (1, tuple[int, int] | None, "a list or null"),
        ({}, Mapping[str, int], ""),
        ([], bool, "true or false"),
        ("a", Literal["a", "b"], ""),
        ("c", Literal["a", "b"] | bool, "a, b, true or false"),
        ("x", Path, ""),
        ("x", "Any", ""),
        (3, Path | str, "text"),
    ],
)
def test_what_an_annotation_allows(value: object, annotation: Any, allowed: str) -> None:
    assert allowed_types(value, annotation) == allowed
