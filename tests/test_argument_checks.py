import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from inspect import Signature
from pathlib import Path
from typing import Any, Literal, Optional, TypeVar, Union

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
        (math.nan, {}, "must be a number, not nan"),
        (np.zeros(3), {"least": 0}, "must be a number, not a ndarray"),
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
        (1, tuple[int, int] | None, "a list of whole numbers or null"),
        ([1, True], tuple[int, ...], "a list of whole numbers"),
        ("x", Sequence[float | int | None], "a list of numbers or null"),
        (["x"], Sequence[Sequence[str]] | bool, "a list of lists of text, true or false"),
        ("x", list[Path] | Mapping[str, int], "a list or a mapping"),
        ([3], list[Literal["a", "b"]], "a list of a or b"),
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


T = TypeVar("T")
OBJECT = {"_target_": "my_package.Part"}
NAN = math.nan


@dataclass
class Part:
    size: int = 3


@pytest.mark.parametrize(
    ("annotation", "fitting", "others"),
    [
        (int, [0, -3, 10**30], [1.0, True, "3", None, [1], {}, NAN]),
        (float, [0, 0.5, -1e300, 10**30, math.inf, NAN], [True, "0.5", None, [0.5], {}, OBJECT]),
        (bool, [True, False], [0, 1, "true", None, []]),
        (str, ["", "3", "null"], [3, None, True, ["a"], {}]),
        (int | None, [3, None], [1.0, False, "3"]),
        (Optional[float], [3, 0.5, None], [False, "3"]),  # noqa: UP045  (as libraries write it)
        (Union[int, str], [3, "3"], [None, 0.5, True]),  # noqa: UP007
        (bool | str, [True, "always"], [1, None]),
        (Literal["a", "b"], ["a"], ["c", None, ["a"], {"a": 1}, True]),
        (Literal[16, "16"] | None, [16, "16", None], [32, "a"]),
        (Sequence[float], [[], [1, 0.5]], [0.5, "ab", None, [True], ["1"]]),
        (list[str] | str, [["a"], "a", []], [3, None, [3]]),
        (list, [["a", 3], []], ["a", 3]),
        (tuple[int, ...] | None, [[1, 2], None], [3, "12", [1, "2"]]),
        (tuple[int, str], [[1, "a"]], [[None, "a"], 1]),
        (Sequence[Sequence[str]], [[["a"], []], []], ["a", {}, ["a"], [["a"], [3]]]),
        (Iterable[str] | str, [["a"], "a"], [3, [3]]),
        (dict[str, int] | None, [{"a": 1}, None, OBJECT], ["a", []]),
        (Mapping[str, str], [{}], ["a", None]),
        (float | timedelta, [3, OBJECT], ["a", None, {}]),
        (list[Part] | Part, [[OBJECT], OBJECT], ["a", {}]),
        (Part | str | None, ["a", None, OBJECT], [3, {}]),
        (Part | None, [None, OBJECT, 3, "a"], []),
        (Path | None, ["a", None], []),
        *(
            (kind, [3, "a", None, [], OBJECT, NAN], [])
            for kind in (Any, T, "int", Part, Path, Signature.empty)
        ),
        (Callable[[int], int] | None, ["a", 3, None], []),
        (Path | str, ["a", OBJECT], [3]),
    ],
)
def test_plain_values_that_fit_an_annotation(annotation: Any, fitting: list[Any], others: list[Any]) -> None:
    assert [value for value in fitting if allowed_types(value, annotation)] == []
    assert [value for value in others if not allowed_types(value, annotation)] == []
