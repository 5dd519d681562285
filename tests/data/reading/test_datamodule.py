"""What a data module has before and after it reads its data."""

from collections.abc import Callable
from typing import Any

import numpy as np
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
    def __init__(self, example: Any, found: Any = None, codec: Any = None) -> None:
        super().__init__(2)
        letters = Tokenizer.of(Notation("characters"), ["abc"])
        self.found = found or Splits([Example("ab", "c")], [example], [])
        self.own_codec = codec or TransductionCodec(letters, letters)

    def examples(self) -> Any:
        return self.found

    def make_codec(self, train: Any) -> Any:
        return self.own_codec


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
        (
            lambda: Pairs(Example(None, "c")),  # type: ignore[arg-type]
            "Pairs.examples: a source must be a text or a tuple of symbols, not a NoneType",
        ),
        (
            lambda: Pairs(Example("ab", None)),  # type: ignore[arg-type]
            "Pairs.examples: a target must be a sequence of symbols, not a NoneType",
        ),
        (
            lambda: Pairs(Example("ab", "c", [3])),
            "Pairs.examples: an alignment has the position 3, but its source has 0 to 2",
        ),
        (
            lambda: Pairs(Example("ab", "c", "x")),  # type: ignore[arg-type]
            "Pairs.examples: an alignment must be a sequence of source positions, not a str",
        ),
        (
            lambda: Pairs(Example("ab", "c"), Splits(*([Example("a", "b")] for _ in range(3)))._asdict()),
            "Pairs.examples must return Splits of lists of Example(source, target), not a dict",
        ),
        (
            lambda: Pairs(Example("ab", "c"), Splits(*(iter([Example("a", "b")]) for _ in range(3)))),
            "Pairs.examples must return Splits of lists of Example(source, target), not of a list_iterator",
        ),
        (
            lambda: Pairs(Example("ab", "c"), codec=ClassificationCodec(["a", "b"], 2, features=1)),
            "Pairs.make_codec must return a TransductionCodec, not a ClassificationCodec",
        ),
    ],
)
def test_what_a_data_set_of_another_package_gives_is_checked(data: Callable[[], Any], told: str) -> None:
    with pytest.raises(LabError) as error:
        data().setup("fit")
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("inputs", "labels", "told"),
    [
        (
            [[[0.0]]],
            [0],
            "ClassificationSplit needs a tensor [N, L, d], RaggedVectors, or a Ragged of ids, not a list",
        ),
        (
            np.zeros((1, 2, 1)),
            [0],
            "ClassificationSplit needs a tensor [N, L, d], RaggedVectors, or a Ragged of ids, not a ndarray",
        ),
        (
            torch.zeros(1, 2, 1),
            ["a"],
            "ClassificationSplit needs class numbers as labels, such as codec.label gives",
        ),
        (
            torch.zeros(1, 2, 1),
            np.array(["a"]),
            "ClassificationSplit needs class numbers as labels, such as codec.label gives",
        ),
        (
            torch.zeros(1, 2, 1),
            [[0], [0, 1]],
            "ClassificationSplit needs class numbers as labels, such as codec.label gives",
        ),
        (
            torch.zeros(2, 2, 1),
            [0.5, 1.7],
            "ClassificationSplit needs class numbers as labels, such as codec.label gives",
        ),
        (
            torch.zeros(2, 2, 1),
            np.array([0.5, 1.7]),
            "ClassificationSplit needs class numbers as labels, such as codec.label gives",
        ),
    ],
)
def test_a_classification_split_says_what_it_needs(inputs: Any, labels: Any, told: str) -> None:
    with pytest.raises(LabError) as error:
        ClassificationSplit(inputs, labels)
    assert str(error.value) == told


def test_a_classification_split_has_a_text_for_each_sequence() -> None:
    told = r"^ClassificationSplit has 2 sequences, but 1 text$"
    with pytest.raises(LabError, match=told):
        ClassificationSplit(torch.zeros(2, 2, 1), [0, 1], ["a"])


@pytest.mark.parametrize(
    "rows", [["ab"], [["a"]], [None], [[None]], ["12"], [[1.7]], [torch.ones(2)], [np.ones(2)], [[2**63]]]
)
def test_ragged_rows_are_integers(rows: Any) -> None:
    with pytest.raises(LabError, match=r"^Ragged needs rows of whole numbers: "):
        Ragged(rows)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([0, 1], "of the kind 'classification' has invalid values of labels (list[str])"),
        (
            [np.str_("a"), np.str_("b")],  # they would be saved, but never loaded
            "of the kind 'classification' has invalid values of labels (list[str])",
        ),
        (["a", "a"], "has a label twice"),
    ],
)
def test_a_codec_that_no_checkpoint_could_keep_is_told(labels: Any, problem: str) -> None:
    class Numbers(Series):
        def build(self) -> Any:
            self.use_codec(ClassificationCodec(labels, 2, features=1), "these series")
            return self.built

    with pytest.raises(LabError) as error:
        Numbers(Splits(SPLIT, SPLIT, SPLIT)).setup("fit")
    assert str(error.value) == f"Numbers.build: the codec {problem}"


def test_an_attribute_error_in_build_is_its_own() -> None:
    class Wrong(Series):
        def build(self) -> Any:
            return self.rows  # there is none

    for read in (lambda data: data.setup("fit"), lambda data: data.splits):
        with pytest.raises(AttributeError, match="'Wrong' object has no attribute 'rows'"):
            read(Wrong(None))


def test_a_forgotten_constructor_of_the_base_class_is_told() -> None:
    class Bare(Series):
        def __init__(self) -> None:
            self.built, self.sets_codec = Splits(SPLIT, SPLIT, SPLIT), True

    with pytest.raises(LabError, match=r"^Bare.__init__ must call super\(\).__init__\(batch_size\)$"):
        Bare().setup("fit")


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (
            ClassificationSplit(torch.zeros(2, 2, 1), np.zeros((2, 0))),  # type: ignore[arg-type]
            "labels [2, 0], but the codec has 1 answer",
        ),
        (ClassificationSplit(torch.zeros(2, 0, 1), [0, 1]), "an empty sequence"),
        (ClassificationSplit(Ragged([[4], []]), [0, 1]), "an empty sequence"),
        (ClassificationSplit(torch.zeros(2, 2, 1), [[0], [1]]), "labels [2, 1], but the codec has 1 answer"),
        (ClassificationSplit(Ragged([[4], [-5]]), [0, 1]), "a token -5, but the codec has 0 to -1"),
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
