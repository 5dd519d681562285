"""The options of data sets that come with other packages, without torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from attention_lab.data.specs.option_checks import check_at_least, check_choice, check_seed
from attention_lab.errors import LabError

Counted = Literal["all", "first"]
DigitsUnit = Literal["pixels", "rows"]


@dataclass(frozen=True)
class CMUDictSpec:
    """The options of `CMUDict`.

    Attributes:
        size: number of training words, None for all.
        stress: whether vowels keep their stress digit, as in `AH0`.
        validation_size: number of validation words.
        test_size: number of test words.
        references: which pronunciations count as correct in validation and test, `all` or only the `first`.
        right_to_left: read and generate from the last symbol to the first.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong.
    """

    size: int | None = 30_000
    stress: bool = False
    validation_size: int = 1_000
    test_size: int = 2_000
    references: Counted = "all"
    right_to_left: bool = False
    batch_size: int | None = 64

    def __post_init__(self) -> None:
        check_at_least(1, validation_size=self.validation_size, test_size=self.test_size)
        if self.size is not None:
            check_at_least(1, size=self.size)
        check_choice(get_args(Counted), references=self.references)


@dataclass(frozen=True)
class WordsSpec:
    """The options of `Words`.

    Attributes:
        size: number of training words, None for all.
        validation_size: number of validation words.
        test_size: number of test words.
        batch_size: see `DataModule`.

    Raises:
        LabError: a number of words is below 1.
    """

    size: int | None = 30_000
    validation_size: int = 1_000
    test_size: int = 2_000
    batch_size: int | None = 128

    def __post_init__(self) -> None:
        check_at_least(1, validation_size=self.validation_size, test_size=self.test_size)
        if self.size is not None:
            check_at_least(1, size=self.size)


@dataclass(frozen=True)
class DigitsSpec:
    """The options of `Digits`.

    Attributes:
        unit: "pixels" for 64 tokens, each a grey level; or "rows" for 8 vectors of 8 numbers from 0 to 1.
        train_size: number of digits for training, stratified by class; a larger subset contains every smaller
            one; None for all. The other splits do not change.
        seed: seed of the choice of these digits.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong.
    """

    unit: DigitsUnit = "rows"
    train_size: int | None = None
    seed: int = 0
    batch_size: int | None = 64

    def __post_init__(self) -> None:
        check_choice(get_args(DigitsUnit), unit=self.unit)
        check_seed(self.seed)
        if self.train_size is not None:
            check_at_least(1, train_size=self.train_size)


@dataclass(frozen=True)
class KarateSpec:
    """The options of `Karate`.

    Attributes:
        train_size: number of members in training: 1 and 34, then others at random. Validation and test get
            half of the rest each.
        seed: seed of the split.

    Raises:
        LabError: `train_size` is below 2 or leaves no members to test.
    """

    train_size: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least(2, train_size=self.train_size)
        check_seed(self.seed)
        if self.train_size > 32:
            raise LabError(
                f"data.train_size={self.train_size}: at most 32 of the 34 members can be used for training"
            )
