"""What a data module has before and after it reads its data."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from attention_lab.data import (
    ClassificationCodec,
    ClassificationData,
    ClassificationSplit,
    Example,
    Notation,
    Ragged,
    Reverse,
    Splits,
    Tokenizer,
    TransductionCodec,
    TransductionData,
)
from attention_lab.errors import LabError


@pytest.mark.parametrize("name", ["sizes", "codec"])
def test_sizes_and_codec_are_known_after_setup(name: str) -> None:
    data = Reverse(train_size=8, validation_size=4, test_size=4)
    with pytest.raises(AttributeError) as caught:
        getattr(data, name)
    assert str(caught.value) == (
        f"'Reverse' object has no attribute '{name}': call setup() first, which reads the data"
    )
    data.setup()
    assert getattr(data, name) is not None


def test_other_attributes_are_reported_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"^'Reverse' object has no attribute 'colour'$"):
        _ = Reverse().colour


SPLIT = ClassificationSplit(torch.zeros(3, 2, 1), [0, 1, 0])


class Series(ClassificationData):
    """A data set of another package."""

    def __init__(self, built: Any, sets_codec: bool = True) -> None:
        super().__init__(2)
        self.built, self.sets_codec = built, sets_codec

    def build(self) -> Any:
        if self.sets_codec:
            self.use_codec(ClassificationCodec(["a", "b"], 2, features=1), "these series")
        return self.built


class Pairs(TransductionData):
    def __init__(self, example: Any) -> None:
        super().__init__(2)
        self.example = example

    def examples(self) -> Any:
        return Splits([Example("ab", "c")], [self.example], [])

    def make_codec(self, train: Any) -> TransductionCodec:
        letters = Tokenizer.of(Notation("characters"), ["abc"])
        return TransductionCodec(letters, letters)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            lambda: Series([SPLIT, SPLIT, SPLIT]),
            "Series.build must return Splits(train, validation, test), not a list",
        ),
        (
            lambda: Series(Splits(SPLIT, SPLIT, TensorDataset(torch.zeros(3)))),
            "Series.build must return a Split, such as ClassificationSplit, for test, not a TensorDataset",
        ),
        (
            lambda: Series(Splits(SPLIT, SPLIT, SPLIT), sets_codec=False),
            "Series.build must set self.codec and self.sizes",
        ),
        (
            lambda: Pairs(("ab", "c")),
            "Pairs.examples must return Splits of lists of Example(source, target), not of a tuple",
        ),
        (
            lambda: Pairs(Example(["a", "b"], ["c"])),
            "Pairs.examples: a source must be a text or a tuple of symbols, not a list",
        ),
    ],
)
def test_what_a_data_set_of_another_package_gives_is_checked(data: Callable[[], Any], told: str) -> None:
    with pytest.raises(LabError) as error:
        data().setup("fit")
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (ClassificationSplit(torch.zeros(2, 2, 1), [0, 2]), "a label 2, but the codec has 0 to 1"),
        (ClassificationSplit(torch.zeros(2, 2, 1), [0, -1]), "a label -1, but the codec has 0 to 1"),
        (ClassificationSplit(torch.zeros(2, 3, 1), [0, 1]), "3 steps, but the codec has a length of 2"),
        (ClassificationSplit(torch.zeros(2, 2, 4), [0, 1]), "vectors of 4 numbers, but the codec has 1"),
        (ClassificationSplit(Ragged([[4], [5]]), [0, 1]), "a token 5, but the codec has 0 to -1"),
    ],
)
def test_what_does_not_fit_the_codec_is_told_before_a_gpu_fails(
    split: ClassificationSplit, told: str
) -> None:
    with pytest.raises(LabError) as error:
        Series(Splits(SPLIT, SPLIT, split)).setup("fit")
    assert str(error.value) == f"Series.build gives {told}, in test"


def test_tokens_beyond_the_vocabulary_are_told() -> None:
    class Words(Series):
        def build(self) -> Any:
            letters = Tokenizer.of(Notation("characters"), ["ab"])  # 4 special symbols and 2 others
            self.use_codec(ClassificationCodec(["a", "b"], 9, letters), "these words")
            return self.built

    right, wrong = (ClassificationSplit(Ragged(rows), [0, 1]) for rows in ([[4, 5], [5]], [[4], [5, 6]]))
    Words(Splits(right, right, right)).setup("fit")
    with pytest.raises(LabError, match=r"^Words.build gives a token 6, but the codec has 0 to 5, in train$"):
        Words(Splits(wrong, right, right)).setup("fit")


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (torch.zeros(3, 5), "ClassificationSplit needs vectors [N, L, d], not a tensor [3, 5]"),
        (torch.zeros(4, 5, 2), "ClassificationSplit has 4 sequences, but 3 labels"),
    ],
)
def test_vectors_and_labels_are_checked(inputs: torch.Tensor, told: str) -> None:
    with pytest.raises(LabError) as error:
        ClassificationSplit(inputs, [0, 1, 0])
    assert str(error.value) == told


def test_vectors_have_the_precision_of_the_model() -> None:
    split = ClassificationSplit(torch.zeros(3, 5, 2, dtype=torch.float64), [0, 1, 0])
    assert split[torch.tensor([0])].inputs.dtype == torch.float32
