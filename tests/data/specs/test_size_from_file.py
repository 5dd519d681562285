"""Options from a file may not make a data set sample more than a machine can hold."""

import time
from typing import Any

import pytest

from attention_lab.data import Reverse
from attention_lab.data.specs import check_size_from_file
from attention_lab.errors import LabError

HUGE = 10**7


def _check(name: str, given: tuple[str, ...] = (), **options: Any) -> None:
    check_size_from_file({"_target_": f"attention_lab.data.{name}", **options}, given, "ckpt_path=best.ckpt")


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        (
            "Reverse",
            {"test_size": HUGE, "min_length": HUGE, "max_length": HUGE},
            "data.test_size=10000000 and data.min_length=10000000 and data.max_length=10000000 would make",
        ),
        ("synthetic.toy.Copy", {"train_size": HUGE}, "data.train_size=10000000 would make"),
        ("Sort", {"max_length": 100_000}, "data.max_length=100000 would"),
        ("Repeat", {"vocabulary": HUGE}, "data.vocabulary"),
        ("Sine", {"validation_size": HUGE}, "data.validation_size"),
        ("Sentences", {"train_size": HUGE}, "data.train_size"),
        ("ListOps", {"test_size": 1, "train_size": 1, "max_length": 100_000}, "data.max_length"),
        ("ListOps", {"max_length": 3_000, "max_depth": 900}, "data.max_length=3000 and data.max_depth=900"),
        ("Motifs", {"length": HUGE}, "data.length"),
        ("FarPairs", {"length": 10_000}, "data.length"),
        ("Recall", {"queries": 10**6, "length": 10**6 + 8}, "data.length=1000008 and data.queries"),
        ("Recall", {"short_epochs": HUGE}, "data.short_epochs"),
        ("Recall", {"length": HUGE}, "data.length"),
        ("DigitStrips", {"height": HUGE, "cell": 1}, "data.height"),
        ("DigitStrips", {"gap": HUGE}, "data.gap"),
        ("Inflection", {"file": "a.tsv", "hallucinate": HUGE}, "data.hallucinate"),
        ("Pairs", {"file": "a.tsv", "batch_size": HUGE}, "data.batch_size=10000000 would need too much"),
        ("Reverse", {"batch_size": 20_000}, "data.batch_size"),
        ("ListOps", {"max_length": 2000, "batch_size": 999}, "data.batch_size=999 and data.max_length=2000"),
    ],
)
def test_too_much_data_is_rejected_before_it_is_sampled(
    name: str, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(LabError) as error:
        _check(name, **options)
    assert str(error.value).startswith("ckpt_path=best.ckpt: ")
    assert named in str(error.value)
    assert "on the command line" in str(error.value)
    _check(name, tuple(options), **options)  # typed: as much as the user likes


def test_options_from_the_command_line_do_not_count_but_those_from_the_file_do() -> None:
    _check("Reverse", ("test_size",), test_size=HUGE, max_length=10)
    with pytest.raises(LabError, match=r"best\.ckpt: data\.max_length=1000 would"):
        _check("Reverse", ("test_size",), test_size=HUGE, max_length=1000)


def test_ordinary_sizes_are_accepted() -> None:
    _check("Reverse")
    _check("FarPairs", train_size=50_000)
    _check("ListOps", max_length=2000)
    _check("Recall", length=4096, short_epochs=8)
    _check("DigitStrips")
    _check("Reverse", batch_size=4096)
    _check("Sine", train_size=100_000)
    _check("CSVRegression", file="a.csv", inputs=["x"], target="y", batch_size=100_000)
    _check("Karate")
    check_size_from_file({"_target_": "my_package.MyData", "batch_size": HUGE}, (), "ckpt_path=best.ckpt")
    _check("Reverse", max_length=2)  # below min_length, which the data set itself reports


def test_long_sequences_are_counted_without_huge_numbers() -> None:
    start = time.process_time()
    data = Reverse(train_size=1, validation_size=1, test_size=1, min_length=50_000, max_length=200_000)
    data.setup()
    assert time.process_time() - start < 2
