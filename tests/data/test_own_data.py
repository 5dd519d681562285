"""The values that user-defined data sets return are checked, and errors are reported in one line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from attention_lab.data import (
    ClassificationCodec,
    ClassificationData,
    ClassificationSplit,
    LanguageCodec,
    LanguageData,
    Notation,
    RaggedVectors,
    RegressionData,
    Splits,
    Table,
    Tokenizer,
)
from attention_lab.errors import LabError

ROWS = torch.rand(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
SERIES = torch.rand(6, 4, 2, generator=torch.Generator().manual_seed(0))
NAN = float("nan")


class Numbers(RegressionData):
    """Whatever a test gives as the table."""

    def __init__(self, table: Any) -> None:
        super().__init__(standardize=True, batch_size=None)
        self._table = table

    def table(self) -> Table:
        """See the class."""
        return self._table  # type: ignore[no-any-return]


def _rows(train: Any, validation: Any = ROWS, inputs: Any = ("a", "b"), target: Any = "y") -> Table:
    inputs = list(inputs) if isinstance(inputs, tuple) else inputs
    return Table(inputs, target, Splits(train, validation, ROWS))


def _with(values: Tensor, number: float) -> Tensor:
    """The same values, but for one."""
    values = values.clone()
    values[(1,) * values.dim()] = number
    return values


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (None, "Numbers.table must return Table(inputs, target, rows), not a NoneType"),
        ((["a"], "y"), "Numbers.table must return Table(inputs, target, rows), not a tuple"),
        (
            Table(["a", "b"], "y", [ROWS] * 3),  # type: ignore[arg-type]
            "Numbers.table must return Splits as the rows of its Table, not a list",
        ),
        (
            _rows(ROWS.numpy()),
            "Numbers.table must give tensors [N, 3] of rows, the target last, not a ndarray",
        ),
        (_rows(ROWS[:, :2]), "Numbers.table must give tensors [N, 3] of rows, the target last, not [6, 2]"),
        (_rows(ROWS, ROWS[0]), "Numbers.table must give tensors [N, 3] of rows, the target last, not [3]"),
        (_rows(ROWS + 1j), "Numbers.table must give real numbers, not torch.complex128"),
        (
            _rows(ROWS, inputs=np.array(["a", "b"])),
            "Numbers.table must give a list of the names of the inputs, and the name of the target",
        ),
        (_rows(ROWS[:0]), "there are no examples for training"),
        (_rows(_with(ROWS, NAN)), "column 'b': not all of its numbers are finite"),
        (_rows(ROWS, _with(ROWS, NAN)), "column 'b': not all of its numbers are finite"),
        (_rows(ROWS, _with(ROWS, torch.inf)), "column 'b': not all of its numbers are finite"),
    ],
)
def test_tables_are_checked(table: Any, told: str) -> None:
    """What is no table of finite numbers ended in a traceback, or in "nan is nan standard deviations"."""
    with pytest.raises(LabError) as error:
        Numbers(table).setup()
    assert str(error.value) == told


def test_whole_numbers_are_numbers() -> None:
    """A table of whole numbers is scaled like any other; gradients are no part of it."""
    whole, real = (ROWS * 100).round().long(), (ROWS * 100).round().requires_grad_()
    one, two = Numbers(_rows(whole, whole)), Numbers(_rows(real, real))
    one.setup()
    two.setup()
    assert one.codec == two.codec
    assert not two.training_set().inputs.requires_grad


class Vectors(ClassificationData):
    """Whatever a test gives as the split."""

    def __init__(self, split: Callable[[], ClassificationSplit]) -> None:
        super().__init__(batch_size=2)
        self._split = split

    def build(self) -> Splits[ClassificationSplit]:  # type: ignore[override]
        """See the class."""
        self.use_codec(ClassificationCodec(["one", "two"], length=4, features=2), "data=own")
        good = ClassificationSplit(SERIES, [0, 1] * 3)
        return Splits(good, good, self._split())


@pytest.mark.parametrize("number", [NAN, torch.inf])
@pytest.mark.parametrize("make", [lambda x: x, lambda x: RaggedVectors(list(x))])
def test_inputs_that_are_not_finite(number: float, make: Callable[[Tensor], Any]) -> None:
    """With them, every weight would become NaN in the first step."""
    data = Vectors(lambda: ClassificationSplit(make(_with(SERIES, number)), [0, 1] * 3))
    with pytest.raises(
        LabError, match=r"^Vectors.build gives a number that is not finite in float32, in test$"
    ):
        data.setup()


@pytest.mark.parametrize("labels", [None, torch.tensor(1), 3])
def test_what_cannot_be_labels(labels: Any) -> None:
    """These ended in a traceback of PyTorch."""
    with pytest.raises(LabError, match=r"^ClassificationSplit needs class numbers as labels"):
        ClassificationSplit(SERIES, labels)


@pytest.mark.parametrize("texts", ["abcdef", [1] * 6, ["a", "b", "c", "d", "e", NAN]])
def test_what_cannot_be_texts(texts: Any) -> None:
    with pytest.raises(LabError, match=r"^ClassificationSplit needs a list of texts, one for each sequence"):
        ClassificationSplit(SERIES, [0, 1] * 3, texts)


def test_no_texts() -> None:
    for texts in (None, [], ()):
        assert ClassificationSplit(SERIES, [0, 1] * 3, texts)[torch.arange(2)].texts == ()


@pytest.mark.parametrize(
    ("labels", "length", "wrong"), [(["one"], None, "length"), (None, 4, "labels"), ("one", 4, "labels")]
)
def test_a_codec_of_other_values(labels: Any, length: Any, wrong: str) -> None:
    data = Vectors(lambda: ClassificationSplit(SERIES, [0, 1] * 3))
    told = rf"^Vectors.build: the codec of the kind 'classification' has invalid values of {wrong} "
    with pytest.raises(LabError, match=told):
        data.use_codec(ClassificationCodec(labels, length, features=2), "data=own")


def test_any_sequence_of_numbers_is_labels() -> None:
    """A column of pandas keeps the numbers of its rows when the table is split."""
    column: Any = pd.Series([0, 1] * 3, index=range(10, 16))
    made: Any = (label for label in [0, 1] * 3)
    for labels in (column, made):
        assert ClassificationSplit(SERIES, labels).labels.tolist() == [0, 1] * 3


class Sequences(LanguageData):
    """Whatever a test gives as the sequences, and as the codec."""

    def __init__(self, sequences: Any, *, length: int = 6, codec: bool = True) -> None:
        super().__init__(batch_size=2)
        self._sequences, self._length, self._codec = sequences, length, codec

    def sequences(self) -> Any:
        """See the class."""
        return self._sequences

    def make_codec(self, sequences: Any) -> LanguageCodec:
        """See the class."""
        tokenizer: Any = Tokenizer.of(Notation("characters"), sequences.train)
        return LanguageCodec(tokenizer, self._length, ends=True) if self._codec else tokenizer


def _words(one: Any) -> Splits[Any]:
    return Splits(["hello"], ["hello"], one)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (Sequences(None), ".sequences must return Splits of lists of sequences of symbols, not a NoneType"),
        (
            Sequences(_words("hello")),
            ".sequences must return Splits of lists of sequences of symbols, not of a str",
        ),
        (
            Sequences(_words([None])),
            ".sequences must return Splits of lists of sequences of symbols, not of a NoneType",
        ),
        (
            Sequences(_words(["hello"]), codec=False),
            ".make_codec must return a LanguageCodec, not a Tokenizer",
        ),
        (
            Sequences(_words(["helloo"])),
            ": the longest sequence needs a length of 7, but the codec's is 6",
        ),
    ],
)
def test_sequences_are_checked(data: Sequences, told: str) -> None:
    """What is no list of sequences ended in a traceback; longer ones, in one of a model."""
    with pytest.raises(LabError) as error:
        data.setup()
    assert str(error.value) == f"Sequences{told}"


def test_symbols_that_are_no_text() -> None:
    """They could not be sorted."""
    with pytest.raises(LabError, match=r"^a symbol is of the type NoneType, not text$"):
        Tokenizer.of(Notation("characters"), [["a", None]])  # type: ignore[list-item]
