"""The benchmark of the Attention tab, and tables that a topic makes by itself."""

from pathlib import Path

import pytest
import torch
from chromium import NEEDS_CHROMIUM

from benchmarks import __main__ as command
from benchmarks import topic_run
from benchmarks.measuring import report
from benchmarks.topics import viewer


@pytest.mark.slow
@NEEDS_CHROMIUM
def test_it_measures_every_action() -> None:
    (table,) = viewer.tables(torch.device("cpu"), True)
    assert [row[0] for row in table.rows] == ["first view", *viewer.ACTIONS]
    assert all(len(row) == len(table.columns) and all("ms" in cell for cell in row[1:]) for row in table.rows)


def test_without_chromium_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chromium.CHROMIUM", None)
    assert command.main(["viewer"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("benchmarks: the topic viewer needs Chromium") and said.count("\n") == 1


def test_a_topic_may_have_tables_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = report.Table("sizes", ["action", "time"], [["zoom", "3 ms"]], note="A note.")
    fake = type("Topic", (), {"tables": staticmethod(lambda device, quick: [table])})
    monkeypatch.setattr(topic_run, "load", lambda _: fake)
    monkeypatch.setattr(topic_run, "ceiling", lambda _: {"GF/s": 7.0})
    topic_run.run("viewer", device="cpu", output=tmp_path / "RESULTS.md")
    written = (tmp_path / "RESULTS.md").read_text()
    assert (
        "### sizes\n\n| action | time |\n| --- | ---: |\n| zoom | 3 ms |\n\nA note.\nThe machine" in written
    )
