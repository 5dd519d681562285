"""The options of data from files: which files must be given, and how a single one is split."""

from pathlib import Path

import pytest

from attention_lab.data.specs.base import ColumnsSpec
from attention_lab.errors import LabError


class _Pairs(ColumnsSpec):
    COLUMNS = ("source", "target")


def columns(**options: str) -> ColumnsSpec:
    files: dict[str, str | None] = dict.fromkeys(["train_file", "validation_file", "test_file", "file"])
    return _Pairs(**{**files, **options}, fractions=(0.6, 0.2, 0.2), seed=0)


def test_three_files_or_one(tmp_path: Path) -> None:
    file = tmp_path / "given.txt"
    file.write_text("".join(f"{number % 5}\t{number}\n" for number in range(10)))
    three = columns(train_file=str(file), validation_file=str(file), test_file=str(file))
    assert [len(part) for part in three.read(lambda row: row.place)] == [10, 10, 10]
    one = columns(file=str(file)).read(lambda row: row.first)
    assert [len(part) for part in one] == [6, 2, 2]
    assert len({row.first for row in one.test} | {row.first for row in one.validation}) == 2
    assert sorted(int(row.second) for part in one for row in part) == list(range(10))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"train_file": "a"}, "data.validation_file and data.test_file are missing: give all three"),
        ({}, "data.train_file, data.validation_file and data.test_file are missing"),
        (
            {"train_file": "a", "test_file": "b"},
            "data.validation_file is missing: give all three files, or a single data.file to split; "
            "if you have no validation file, hold out part of the training file with data.file=a, then test "
            "with stage=test data.test_file=b",
        ),
        ({"file": "a", "test_file": "b"}, "data.file replaces data.train_file, data.validation_file and"),
    ],
)
def test_missing_and_surplus_options(options: dict[str, str], expected: str) -> None:
    with pytest.raises(LabError) as caught:
        columns(**options).read(lambda row: row.first)
    assert str(caught.value).startswith(expected)


def test_every_part_of_one_file_needs_a_share() -> None:
    with pytest.raises(LabError, match="each above 0"):
        ColumnsSpec(None, None, None, "a", (1, 0, 0), 0)
