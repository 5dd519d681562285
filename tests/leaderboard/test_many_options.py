"""Runs that differ in very many options are named by a few of them."""

import re
from pathlib import Path

import pytest
from folders import RATE, make_run

from attention_lab.leaderboard.board import compare_runs
from attention_lab.leaderboard.settings import Setting, telling_options
from attention_lab.leaderboard.tables import print_leaderboard, to_csv, to_markdown
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import find_runs


def _settings(*rows: str) -> list[Setting]:
    """Settings whose options a, b, c, ... have the values that the letters of a row are."""
    return [Setting(dict(zip("abcdefgh", row, strict=False)), []) for row in rows]


def test_the_options_that_tell_most_settings_apart_come_first() -> None:
    assert telling_options(_settings("000", "011")) == ["b", "c"]  # few options are all named
    assert telling_options(_settings("00000000", "11111111")) == ["a", "b", "c", "d"]
    # the first four options alone would leave the last two settings the same
    assert telling_options(_settings("00000000", "11111111", "11111112")) == ["a", "b", "c", "h"]
    single = _settings("10000000", "01000000", "00100000", "00010000", "00001000", "00000100")
    assert telling_options(single) == ["a", "b", "c", "d"]


def test_names_and_the_table_on_the_console_have_a_few_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in range(3):
        values = {f"option_{number}": number % 7 * run for number in range(1, 31)}
        given = [f"model.{name}={value}" for name, value in values.items()]
        metrics = {RATE: 0.1 + run / 10}
        make_run(tmp_path / f"{run}", metrics, options={"model": values}, overrides=given)
    (section,) = compare_runs(find_runs([tmp_path]), View(), tmp_path).sections
    monkeypatch.setenv("COLUMNS", "100")
    print_leaderboard("", [section])
    out = capsys.readouterr().out
    named = "model.option_1=0 model.option_2=0 model.option_3=0 model.option_4=0"
    assert f"best by token error rate (lowest): {named}\n" in out
    assert "settings are named by 4 of the 26 options in which they differ\n" in out
    assert "not shown, but in leaderboard.md and leaderboard.csv: 22 options" in out
    assert re.search(r"│( 0 +│){4} 1 │", out)
    assert max(len(line) for line in out.splitlines() if line[:1] in "┃│┏") <= 100
    for whole in (to_markdown("", [section], [], []), to_csv([section])):
        assert "model.option_30" in whole
