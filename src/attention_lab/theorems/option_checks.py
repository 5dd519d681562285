"""Checks of the options of theorems."""

from collections.abc import Sequence
from typing import Any

from attention_lab.argument_checks import check_number
from attention_lab.errors import LabError


def check_list(option: str, numbers: Sequence[float], **limits: Any) -> None:
    """Raise LabError if a list is empty, or if one of its numbers is out of range; see `check_number`."""
    if not numbers:
        raise LabError(f"theorem.{option}=[]: give at least one")
    for number in numbers:
        check_number(f"theorem.{option}", number, **limits)


def check_pairs(option: str, pairs: Sequence[Sequence[float]], meaning: str) -> None:
    """Raise LabError if an element of a list is not a pair; the message says what its pairs are."""
    if any(len(pair) != 2 for pair in pairs):
        raise LabError(f"theorem.{option}: give pairs of {meaning}")


def check_tolerance(tolerance: float) -> None:
    """Raise LabError if a tolerance is not above 0: no difference would be below it."""
    check_number("theorem.tolerance", tolerance, above=0)
