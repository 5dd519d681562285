"""`Splits`, one value each for training, validation and test, and the random assignment of rows to them."""

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from attention_lab.console_text import counted
from attention_lab.errors import LabError

T = TypeVar("T")
U = TypeVar("U")


class Splits(NamedTuple, Generic[T]):
    """One value for each split of a data set."""

    train: T
    validation: T
    test: T

    def map(self, function: Callable[[T], U]) -> "Splits[U]":
        """Apply `function` to each split."""
        return Splits(function(self.train), function(self.validation), function(self.test))


def partition(keys: Sequence[Hashable], fractions: Sequence[float], seed: int) -> Splits[list[int]]:
    """Assign rows to the splits at random; returns row numbers, in their original order.

    Rows with equal keys stay together, so that no key of the test split also occurs in training. `fractions`
    (three numbers that sum to 1) are shares of the distinct keys. A split whose fraction is 0 is empty; every
    other split gets at least one key.

    Raises:
        LabError: there are too few rows.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    validation, test = (max(1, round(share * len(order))) if share else 0 for share in fractions[1:])
    train = len(order) - validation - test
    if train < 1:
        distinct = counted(len(order), "distinct example")
        raise LabError(f"data.fractions={list(fractions)} leave none of {distinct} for training")

    def rows(split: list[list[int]]) -> list[int]:
        return sorted(row for group in split for row in group)

    return Splits(
        rows(order[:train]), rows(order[train : train + validation]), rows(order[train + validation :])
    )
