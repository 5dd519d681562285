import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Optional, TypeVar, Union

import numpy as np
import pytest

from attention_lab.argument_checks import allowed_types, check_counts, check_number
from attention_lab.errors import LabError
from attention_lab.untrusted.configuration import check_option


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


T = TypeVar("T")
OBJECT = {"_target_": "my_package.Part"}
INFINITE, NAN = math.inf, math.nan


@dataclass
class Part:
    size: int = 3


def _accepted(value: object, annotation: Any) -> tuple[bool, bool]:
    """Whether a value fits an annotation on the command line, and in a file from others."""
    try:
        check_option(annotation, value, "option", "file")
    except LabError:
        return not allowed_types(value, annotation), False
    return not allowed_types(value, annotation), True


@pytest.mark.parametrize(
    ("annotation", "fitting", "others"),
    [
        (int, [0, -3, 10**30], [1.0, True, "3", None, [1], {}, NAN]),
        (float, [0, 0.5, -1e300, 10**30], [True, "0.5", None, [0.5], {}]),
        (bool, [True, False], [0, 1, "true", None, []]),
        (str, ["", "3", "null"], [3, None, True, ["a"], {}]),
        (int | None, [3, None], [1.0, False, "3"]),
        (Optional[float], [3, 0.5, None], [False, "3"]),  # noqa: UP045  (as libraries write it)
        (Union[int, str], [3, "3"], [None, 0.5, True]),  # noqa: UP007
        (bool | str, [True, "always"], [1, None]),
        (Literal["a", "b"], ["a"], ["c", None, ["a"], {"a": 1}, True]),
        (Literal[16, "16"] | None, [16, "16", None], [32, "a"]),
        (Sequence[float], [[], [1, 0.5]], [0.5, "ab", None]),
        (list[str] | str, [["a"], "a", []], [3, None]),
        (tuple[int, ...] | None, [[1, 2], None], [3, "12"]),
        (Sequence[Sequence[str]], [[["a"], []], []], ["a", {}]),
        (dict[str, int] | None, [{"a": 1}, None], []),
        (Any, [3, "a", None, [], OBJECT, NAN], []),
        (T, [3, "a", None, [], OBJECT], []),
        ("int", [3, "a", None, []], []),
        (Part, ["a", 3, OBJECT], []),
        (Callable[[int], int], ["a", 3, OBJECT], []),
        (Path, ["a", OBJECT], []),
        (Path | str, ["a"], []),
    ],
)
def test_plain_values_that_fit_an_annotation(annotation: Any, fitting: list[Any], others: list[Any]) -> None:
    assert [value for value in fitting if _accepted(value, annotation) != (True, True)] == []
    assert [value for value in others if _accepted(value, annotation) != (False, False)] == []


@pytest.mark.parametrize(
    ("annotation", "value", "accepted"),
    [
        (float, INFINITE, (True, False)),
        (float | None, NAN, (True, False)),
        (Sequence[float], [INFINITE], (True, False)),
        (list[str], [3], (True, False)),
        (Sequence[int], [True], (True, False)),
        (tuple[int, int], [1, "a"], (True, False)),
        (Sequence[Sequence[str]], [["a"], [3]], (True, False)),
        (Sequence[Sequence[str]], ["a"], (True, False)),
        (list, "a", (False, True)),
        (dict[str, int] | None, "a", (False, True)),
        (Mapping[str, str], "a", (True, True)),
        (float | timedelta, "a", (False, True)),
        (Part | str | None, 3, (False, True)),
        (Part | str | None, OBJECT, (False, True)),
        (Part | None, OBJECT, (False, True)),
        (Part | None, 3, (False, True)),
        (Path | None, "a", (False, True)),
        (Path | str, 3, (False, True)),
        (Any | None, 3, (False, True)),
        (Callable[[int], int] | None, "a", (False, True)),
    ],
)
def test_what_fits_differs_in_files_from_others(
    annotation: Any, value: Any, accepted: tuple[bool, bool]
) -> None:
    assert _accepted(value, annotation) == accepted
