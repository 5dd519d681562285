"""Time series as text: both formats, against numbers written out, and every mistake in one line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data.reading import series_files
from attention_lab.data.reading.series_files import parse_steps, read_series
from attention_lab.errors import LabError

HEADER = "#comment\n% another\n@problemName Two words\n@univariate false\n@classLabel true a b\n\n@DATA\n"
NUMBERS = st.floats(-1e30, 1e30, allow_nan=False)


def save(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def refusal(path: Path, text: str) -> str:
    """What the error about a file with this text says after the path."""
    with pytest.raises(LabError) as caught:
        read_series(save(path, text))
    return str(caught.value).removeprefix(str(path))


def test_lines_with_one_number_a_step(tmp_path: Path) -> None:
    path = save(tmp_path / "x.tsv", "walk\t0.5 1e-2,-3\n run \t 7\t8 \n")
    first, second = read_series(path)
    assert (first.place, first.label, first.steps.tolist()) == (f"{path}:1", "walk", [[0.5], [0.01], [-3.0]])
    assert (second.place, second.label, second.steps.tolist()) == (f"{path}:2", "run", [[7.0], [8.0]])


def test_the_padding_of_short_series_in_the_ucr_archive_is_left_out(tmp_path: Path) -> None:
    rows = read_series(
        save(tmp_path / "x_TRAIN.tsv", "2\t0.5\t-1.5\tNaN\tNaN\n1\t3\t4\t5\t6\r\n2\t1\tNaN\tnan\tNaN \n")
    )
    assert [row.steps.flatten().tolist() for row in rows] == [[0.5, -1.5], [3.0, 4.0, 5.0, 6.0], [1.0]]
    long = read_series(save(tmp_path / "long.tsv", "a\t1" + "\tNaN" * 1_000_000))
    assert long[0].steps.tolist() == [[1.0]]


def test_lines_with_several_numbers_a_step(tmp_path: Path) -> None:
    rows = read_series(save(tmp_path / "x.tsv", "a\t1 2; 3,4;\nb\t5, 6\n"))
    assert [row.steps.tolist() for row in rows] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]


def test_an_archive_has_the_variables_one_after_the_other(tmp_path: Path) -> None:
    path = save(tmp_path / "x.ts", HEADER + "1,2,3:4,5,6:a\n\n7:8: b \n")
    first, second = read_series(path)
    assert (first.place, first.label, first.steps.tolist()) == (f"{path}:8", "a", [[1, 4], [2, 5], [3, 6]])
    assert (second.place, second.label, second.steps.tolist()) == (f"{path}:10", "b", [[7, 8]])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_every_number_is_read_as_it_was_written(steps: list[tuple[float, float]]) -> None:
    text = ";".join(f"{a!r} {b!r}" for a, b in steps)
    assert (
        parse_steps(text).tolist()
        == parse_steps(text, one_each=False).tolist()
        == [list(step) for step in steps]
    )
    one = [a for a, _ in steps]
    for separator in (" ", ",", "\t", ";", " ; ", ", "):
        assert parse_steps(separator.join(map(repr, one)), one_each=True).tolist() == [[a] for a in one]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a 1 2", "1: a line is label<TAB>series, such as walk<TAB>0.5 1.2 0.9"),
        ("a\t1\n\nb\t2", "2: a line is label<TAB>series"),
        ("a\t1\n\t2", "2: a line is label<TAB>series"),
        ("label\tseries\na\t1", "1: 'series' should be a finite number, such as 1.5"),
        ("a\t1 2\nb\t1 nan", "2: 'nan' should be a finite number"),
        ("a\t1\tNaN\t2\tNaN", "1: 'NaN' should be a finite number"),
        ("a\tNaN\tNaN", "1: 'NaN' should be a finite number"),
        ("a\t1;2\nb\t1;NaN", "2: 'NaN' should be a finite number"),
        ("a\t1_0", "1: '1_0' should be a finite number"),
        ("a\t1 1e39", "1: '1e39' is too large"),
        ("a\t1,,2", "1: step 1: a number is missing"),
        ("a\t1,2,", "1: step 1: a number is missing"),
        ("a\t1\t\t2", "1: step 1: a number is missing"),
        ("a\t\t1\t2", "1: a number is missing: the series begins or ends with a tab"),
        ("a\t1\t2\t\nb\t1\t2", "1: a number is missing: the series begins or ends with a tab"),
        ("a\t1 2; 3", "1: step 2 has 1 number, but step 1 has 2"),
        ("a\t1 2;; 3 4", "1: step 2 has no numbers, but step 1 has 2"),
        ("a\t;", "1: step 1 has no numbers"),
        ("a\t1 2; 3 4\nb\t5; 6", "2: a step has 1 number, but 2 in "),
    ],
)
def test_mistakes_in_lines(text: str, reason: str, tmp_path: Path) -> None:
    assert refusal(tmp_path / "x.tsv", text).startswith(f":{reason}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1,2:a", ":1: a .ts file begins with lines such as @data"),
        (HEADER, ": there are no series"),
        ("@problemName x", ": there are no series"),
        ("@timeStamps true\n@data\n(0,1):a", ":1: series with time stamps are not read"),
        ("@classLabel false\n@data\n1,2", ":1: the series have no labels"),
        ("@targetlabel true\n@data\n1,2:0.5", ":1: the series have numbers as targets"),
        ("@data\n1,2", ":2: a line below @data is numbers:label"),
        ("@data\n1,2:", ":2: a line below @data is numbers:label"),
        ("@data\n1,2:3:a", ":2: variable 2 has 1 number, but variable 1 has 2"),
        ("@data\n1,?:a", ":2: '?' should be a finite number"),
        ("@data\n1:2:a\n1:b", ":3: a step has 1 number, but 2 in "),
    ],
)
def test_mistakes_in_archives(text: str, reason: str, tmp_path: Path) -> None:
    assert refusal(tmp_path / "x.ts", text).startswith(reason)


@pytest.mark.parametrize(("text", "reason"), [("1;;2", "step 2 has no numbers"), ("1 2; 3", "step 2 has 1")])
def test_a_line_with_semicolons_is_read_as_in_a_file_even_if_a_step_has_one_number(
    text: str, reason: str
) -> None:
    with pytest.raises(LabError, match=reason):
        parse_steps(text, one_each=True)


def test_a_series_of_very_many_characters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "x.tsv", f"a\t1 2\nb\t{'1 ' * 50}\n")
    assert read_series(path)[1].steps.shape == (50, 1)
    monkeypatch.setattr(series_files, "LONGEST_ROW", 98)
    with pytest.raises(LabError, match=r"x\.tsv:2: the series is longer than 98 characters"):
        read_series(path)


def test_only_equal_steps_have_equal_keys(tmp_path: Path) -> None:
    texts = ("1 2; 3 4", "1 2;3 4;", "1 2; 4 3", "1 3; 2 4", "1 2")
    rows = read_series(save(tmp_path / "x.tsv", "".join(f"a\t{text}\n" for text in texts)))
    keys = [row.key for row in rows]
    assert keys[0] == keys[1] and len(set(keys)) == 4
    assert np.array_equal(rows[0].steps, rows[1].steps)


@pytest.mark.parametrize("series", ["0,5 -1,25; 0,75 1,5", "0,5\t0,75", "0,5 0,75;", "1,2 3,4 5,6"])
def test_decimal_commas_are_not_read_as_twice_as_many_numbers(tmp_path: Path, series: str) -> None:
    one = series.split()[0]
    expected = (
        f"'{one}' is one number with a decimal comma, or two numbers: write {one.replace(',', '.')}, or "
        "separate all numbers by spaces, and steps by semicolons"
    )
    assert refusal(tmp_path / "x.tsv", f"walk\t1 2; 3 4\nrun\t{series}\n") == f":2: {expected}"
    with pytest.raises(LabError, match="with a decimal comma"):
        parse_steps(series)


@pytest.mark.parametrize(
    "series", ["1,2; 3,4", "1,2", "1,2;3,4;", "1, 2; 3, 4", "1,2 3", "0.5,1 2,3", "1,2,3 4,5,6"]
)
def test_commas_that_separate_numbers(series: str) -> None:
    assert parse_steps(series).size == len(series.replace(",", " ").replace(";", " ").split())
