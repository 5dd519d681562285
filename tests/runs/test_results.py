"""The results on the console and in `metrics.json`."""

import json
import math
from pathlib import Path

import pytest

from attention_lab.loggers import TensorBoardRunLogger
from attention_lab.runs.results import print_results, write_metrics
from attention_lab.runs.run_folder import read_metrics
from attention_lab.text_tables import ConsoleTable


def test_no_cell_controls_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("perav\tV;PST\x1b]0;x\x07", "\u202e[bold]a" + "b" * 300)]
    print_results({"test/\x1b[2J": 0.5}, [ConsoleTable("Samples", ("input", "output"), rows)], tmp_path)
    shown = capsys.readouterr().out
    assert "perav\\tV;PST\\x1b]0;x\\x07" in shown
    assert "\ufffd[bold]ab" in shown
    assert "b…" in shown
    assert "\\x1b[2J" in shown
    assert not set("\x1b\x07\u202e\t") & set(shown)


def test_a_long_prompt_is_shown_with_its_continuation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "every sailor who finds " * 4 + "the boy is young"
    print_results({}, [ConsoleTable("Samples", ("output",), [(text,)])], tmp_path)
    assert "the boy is young" in capsys.readouterr().out


def test_a_cell_may_have_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_results({}, [ConsoleTable("Samples", ("input", "output"), [((" ▄", "▀\n"), "7")])], tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("│")[1:3] for line in lines if "│" in line] == [
        ["  ▄    ", " 7      "],
        [" ▀\\n   ", "        "],
    ]


def test_rows_are_ruled_off_where_a_cell_takes_several_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    texts = [
        ("many boys", "many boys drink tea"),
        ("every sailor", "every sailor believes that my cat is young"),
    ]
    for rows, ruled in ((texts[:1] * 2, False), (texts, True)):
        print_results({}, [ConsoleTable("Samples", ("input", "output"), rows)], tmp_path)
        assert ("├" in capsys.readouterr().out) == ruled
    print_results(
        {}, [ConsoleTable("Errors", ("text", "times"), [(texts[1][1], "2")] * 2, right=(1,))], tmp_path
    )
    assert "├" not in capsys.readouterr().out  # the number shows where a row begins


def test_numbers_of_single_heads_stay_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.json").touch()
    measured = {"test/alignment_mass": 0.5, "test/alignment_mass/head_1": 0.25}
    print_results(measured | {"parameters": 1.0, "fit/steps": 1.0}, [], tmp_path)
    shown = capsys.readouterr().out
    assert "alignment mass" in shown and "0.2500" not in shown
    assert f"Metrics      {tmp_path}/metrics.json" in shown.replace("\n", "")
    counts = [line for line in shown.splitlines() if "parameters" in line or "steps" in line]
    assert [line.split()[1:4:2] for line in counts] == [["parameters", "1"], ["steps", "1"]]


def test_the_last_checkpoint_is_named_if_there_is_no_best_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in ("last", "best"):
        (tmp_path / "checkpoints" / f"{name}.ckpt").touch()
        print_results({}, [], tmp_path)
        shown = capsys.readouterr().out.replace("\n", "")
        assert f"Checkpoint   {tmp_path}/checkpoints/{name}.ckpt" in shown


def test_the_name_of_a_folder_controls_neither_the_console_nor_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a;b[bold]\x1b[2J"
    folder.mkdir()
    (folder / "metrics.json").touch()
    views = [TensorBoardRunLogger(str(folder)).how_to_view()]
    print_results({}, [], folder, views)
    shown = capsys.readouterr().out
    assert "a;b[bold]\ufffd[2J/metrics.json" in shown and "\x1b" not in shown
    assert f"tensorboard --logdir '{tmp_path}/a;b[bold]\ufffd[2J'" in shown


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def test_numbers_that_json_does_not_have_are_null(tmp_path: Path) -> None:
    write_metrics(tmp_path, {"test/perplexity": math.inf, "test/loss": math.nan, "fit/steps": 3.0})
    text = (tmp_path / "metrics.json").read_text()
    assert json.loads(text, parse_constant=_no_number) == {
        "fit/steps": 3.0,
        "test/loss": None,
        "test/perplexity": None,
    }
    metrics = read_metrics(tmp_path / "metrics.json")
    assert metrics.pop("fit/steps") == 3 and all(map(math.isnan, metrics.values())) and len(metrics) == 2


def test_older_files_have_infinity_and_nan(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    file.write_text('{"test/perplexity": Infinity, "test/loss": NaN}')
    metrics = read_metrics(file)
    assert metrics["test/perplexity"] == math.inf and math.isnan(metrics["test/loss"])
