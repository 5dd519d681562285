"""Training, validation and test splits, and checks of the options that shape them."""

import random
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from attention_lab.argument_checks import LARGEST_SEED
from attention_lab.errors import LabError
from attention_lab.text_tables import counted

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


def check_fractions(fractions: Sequence[float], every_split: bool = False) -> None:
    """Check that `data.fractions` is three shares that sum to 1, the first (or each of them) above 0.

    Raises:
        LabError: the check fails.
    """
    shares = tuple(fractions) if isinstance(fractions, Iterable) else (fractions,)
    numbers = all(isinstance(share, int | float) and share >= 0 for share in shares)
    if (
        not numbers
        or len(shares) != 3
        or abs(sum(shares) - 1) > 1e-6
        or 0 in shares[: 3 if every_split else 1]
    ):
        needed = "each above 0" if every_split else "the first above 0"
        raise LabError(
            f"data.fractions={list(shares)}: give the shares of training, validation and test, "
            f"{needed}, which sum to 1, such as [0.8,0.1,0.1]"
        )


def check_at_least(minimum: float, **options: float) -> None:
    """Raise LabError if a data option is below `minimum`, or not a whole number if `minimum` is an int."""
    whole = isinstance(minimum, int)
    for name, value in options.items():
        if not isinstance(value, int if whole else int | float) or not value >= minimum:
            raise LabError(f"data.{name}={value}: give a {'whole ' * whole}number of at least {minimum}")


def check_seed(seed: int) -> None:
    """Raise LabError if a seed is not a whole number that NumPy and PyTorch accept."""
    check_at_least(0, seed=seed)
    if seed > LARGEST_SEED:
        raise LabError(f"data.seed={seed}: choose at most {LARGEST_SEED}")


def check_batch_size(batch_size: int | None) -> None:
    """Raise LabError if a batch size is below 1; None means all examples at once."""
    if batch_size is not None:
        check_at_least(1, batch_size=batch_size)


def check_choice(choices: Collection[str], **options: str) -> None:
    """Raise LabError if a data option is not one of `choices`."""
    for name, value in options.items():
        if value not in choices:
            raise LabError(f"data.{name}={value}: choose one of {', '.join(choices)}")
