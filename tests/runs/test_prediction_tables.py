"""The tables of a test, read row by row: the worst outputs, the most common confusions."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from attention_lab.runs import prediction_tables
from attention_lab.runs.prediction_tables import read_confusions, read_worst
from attention_lab.runs.rates_by_example import read_rates_by_example
from attention_lab.runs.run_folder import read_job

PREDICTIONS = "source\toutput\treference\tedits\n"
CONFUSIONS = "expected and written\ttimes\texample\n"
RATE = "test/token_error_rate"


def _of_predictions(folder: Path) -> object:
    return read_worst(folder)


def _of_confusions(folder: Path) -> object:
    return read_confusions(folder)


def _of_examples(folder: Path) -> object:
    (folder / "metrics.json").write_text(f'{{"{RATE}": 0.25}}')
    (folder / "config.yaml").write_text("seed: 1\n")
    return read_rates_by_example(read_job(folder), RATE)


@pytest.mark.parametrize(
    ("name", "start", "row", "read"),
    [
        ("predictions", PREDICTIONS, "\t\t\t\n", _of_predictions),
        ("predictions", PREDICTIONS, "\t\t\t1\n", _of_predictions),
        ("predictions", PREDICTIONS, "\t\t\tx\n", _of_examples),
        ("predictions", PREDICTIONS, "\t\t\t", _of_predictions),
        ("confusions", CONFUSIONS, "\t\t\n", _of_confusions),
    ],
)
def test_a_large_table_is_not_held_in_memory(
    name: str, start: str, row: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / f"{name}.tsv").write_text(start + 20_000 * row)
    read(tmp_path)  # whatever is cached
    tracemalloc.start()
    read(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000


def test_the_inputs_of_a_table_are_not_kept(tmp_path: Path) -> None:
    rows = (f"{number:01000}\tx\tabcd\t1\n" for number in range(2000))
    (tmp_path / "predictions.tsv").write_text(PREDICTIONS + "".join(rows))
    tracemalloc.start()
    found = _of_examples(tmp_path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None and kept < 500_000


def test_the_worst_outputs_are_those_with_the_most_edits_per_symbol(tmp_path: Path) -> None:
    rows = [(f"s{n}", "x", "abcd" if n % 2 else "a b", str(n % 7)) for n in range(100)]
    (tmp_path / "predictions.tsv").write_text(PREDICTIONS + "".join("\t".join(row) + "\n" for row in rows))
    worst = read_worst(tmp_path)
    assert len(worst) == 20
    assert worst[:3] == [["s6", "x", "a b", "6"], ["s20", "x", "a b", "6"], ["s34", "x", "a b", "6"]]
    assert all(row[3] != "0" for row in worst)
    (tmp_path / "confusions.tsv").write_text(CONFUSIONS + "a → b\t2\tab\\tc\n" * 30)
    assert read_confusions(tmp_path) == [["a → b", "2", "ab\tc"]] * 20


def test_no_more_of_long_outputs_is_kept_than_is_shown(tmp_path: Path) -> None:
    row = f"{'x' * 400_000}\U0001f600\ty\\tz\ta\t9\n"  # in memory, four bytes for each character
    (tmp_path / "predictions.tsv").write_text(PREDICTIONS + row * 20)
    (tmp_path / "confusions.tsv").write_text(CONFUSIONS + row.replace("\ta", "") * 20)
    tracemalloc.start()
    worst, confusions = read_worst(tmp_path), read_confusions(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert worst == [["x" * 400, "y\tz", "a", "9"]] * 20
    assert confusions == [["x" * 400, "y\tz", "9"]] * 20
    assert peak < 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "other\n",
        PREDICTIONS + "a\tb\tc\n",
        PREDICTIONS + "a\tb\tc\t1\n\n",
        PREDICTIONS + "a\tb\tc\t1\t2\n",
    ],
)
def test_a_damaged_table_is_not_used(text: str, tmp_path: Path) -> None:
    assert read_worst(tmp_path) == read_confusions(tmp_path) == []
    (tmp_path / "predictions.tsv").write_text(text)
    assert read_worst(tmp_path) == []
    assert _of_examples(tmp_path) is None
    (tmp_path / "confusions.tsv").write_text(CONFUSIONS + "a\t1\tb\n" * 50 + "a\n")
    assert read_confusions(tmp_path) == []


def test_a_table_of_more_rows_than_any_test_has_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction_tables, "MOST_ROWS", 3)
    (tmp_path / "predictions.tsv").write_text(PREDICTIONS + "a\tb\tc\t1\n" * 3)
    assert len(read_worst(tmp_path)) == 3
    (tmp_path / "predictions.tsv").write_text(PREDICTIONS + "a\tb\tc\t1\n" * 4)
    assert read_worst(tmp_path) == []
