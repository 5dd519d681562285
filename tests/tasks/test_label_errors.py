"""The tables of a classifier's test, and the interval of its accuracy."""

from pathlib import Path

import numpy as np
import pytest

from attention_lab.metrics import bootstrap_interval
from attention_lab.tasks.errors.error_analysis import example_of
from attention_lab.tasks.errors.label_errors import ClassifiedExample, accuracy_interval, write_label_errors

NAMES = ["bird", "cat", "dog"]
EXAMPLES = {
    0: ClassifiedExample("miaows", [2], [1]),
    1: ClassifiedExample("barks", [2], [2]),
    2: ClassifiedExample("purrs\tloudly", [2], [1]),
    3: ClassifiedExample("", [0], [2]),
}


def _name(label: int | list[int]) -> str:
    return NAMES[label] if isinstance(label, int) else " ".join(NAMES[one] for one in label)


def test_tables_by_hand(tmp_path: Path) -> None:
    table = write_label_errors(EXAMPLES, _name, tmp_path)
    rows = [("cat → dog", "2", "miaows: dog (cat)"), ("dog → bird", "1", "example 4: bird (dog)")]
    assert list(table.rows) == rows
    assert (tmp_path / "predictions.tsv").read_text().splitlines() == [
        "source\toutput\treference\tedits",
        "miaows\tdog\tcat\t1",
        "barks\tdog\tdog\t0",
        "purrs\\tloudly\tdog\tcat\t1",
        "example 4\tbird\tdog\t1",
    ]
    assert (tmp_path / "confusions.tsv").read_text().splitlines()[1:] == ["\t".join(row) for row in rows]
    page = (tmp_path / "errors.md").read_text()
    assert "3 of 4 outputs are wrong." in page and "## Wrong outputs" in page and "barks" not in page


def test_an_output_without_symbols_is_named() -> None:
    assert [example_of(["kcp", output, "pck", "3"]) for output in ("", "p")] == [
        "kcp: (nothing) (pck)",
        "kcp: p (pck)",
    ]


def test_several_labels_of_an_example_count_one_by_one(tmp_path: Path) -> None:
    examples = {0: ClassifiedExample("a b", [0, 1, 2], [0, 2, 1]), 1: ClassifiedExample("c", [0], [0])}
    table = write_label_errors(examples, _name, tmp_path)
    assert [row[:2] for row in table.rows] == [("cat → dog", "1"), ("dog → cat", "1")]
    assert "a b\tbird cat dog\tbird dog cat\t2" in (tmp_path / "predictions.tsv").read_text()


def test_the_most_common_errors_come_first_and_then_those_of_the_first_labels(tmp_path: Path) -> None:
    pairs = [(2, 1), (2, 0), (0, 1), (2, 1)]  # label and output
    examples = {row: ClassifiedExample("", [output], [label]) for row, (label, output) in enumerate(pairs)}
    table = write_label_errors(examples, _name, tmp_path)
    assert [row[:2] for row in table.rows] == [("dog → cat", "2"), ("bird → cat", "1"), ("dog → bird", "1")]


def test_the_most_wrong_come_first_and_then_the_first_in_the_data(tmp_path: Path) -> None:
    wrong = {0: [0, 0, 1], 1: [1, 1, 1], 2: [0, 0, 1]}
    examples = {row: ClassifiedExample("abc"[row], outputs, [0, 0, 0]) for row, outputs in wrong.items()}
    write_label_errors(examples, _name, tmp_path)
    worst = (tmp_path / "errors.md").read_text().partition("## Wrong outputs")[2].splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in worst if "bird" in line] == ["b", "a", "c"]


def test_the_interval_is_that_of_the_errors_turned_round() -> None:
    error = bootstrap_interval(np.array([1, 0, 1, 1]), np.ones(4, dtype=np.int64))
    assert accuracy_interval(list(EXAMPLES.values())) == {
        "accuracy_low": 1 - error.high,
        "accuracy_high": 1 - error.low,
    }
    right = [ClassifiedExample("", [1], [1])] * 150
    assert accuracy_interval(right) == pytest.approx(
        {"accuracy_low": 1 - 0.0243, "accuracy_high": 1}, abs=1e-4
    )
    assert accuracy_interval([]) == {}
