"""Runs on different data are not compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run, make_sweep, read_table

from attention_lab.leaderboard.board import compare_runs
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import find_runs

Command = Callable[..., Any]


def test_runs_on_different_data_are_not_compared(command: Command, tmp_path: Path) -> None:
    for data, rate in (("reverse", 0.1), ("copy", 0.5)):
        for scoring in ("dot", "general"):
            choices = {"data": data, "scoring": scoring}
            make_run(tmp_path / "runs" / f"{data}{scoring}", {RATE: rate}, choices=choices)
    make_sweep(tmp_path / "runs" / "other", {"general": [0.5, 0.6], "dot": [0.7, 0.8]}, "test/accuracy")
    for path in (tmp_path / "runs" / "other").glob("*/.hydra/hydra.yaml"):
        path.write_text(path.read_text().replace("reverse", "digits"))
    done = command("stage=leaderboard", f"run={tmp_path}/runs", f"hydra.callbacks.comparison.y={RATE}")
    assert (
        done.out.count("best by token error rate") == 2
        and "best by accuracy (highest): scoring=dot" in done.out
        and done.out.startswith("2 runs · data=copy\n")
        and "\n2 settings, 4 runs · data=digits" in done.out
    )
    rows = read_table(tmp_path / "runs" / "leaderboard.csv")
    assert [row["section"] for row in rows] == [
        f"data={name}" for name in ("copy", "copy", "reverse", "reverse", *["digits"] * 2)
    ]
    assert "## data=reverse" in (tmp_path / "runs" / "leaderboard.md").read_text()


def test_files_of_ones_own_are_different_data(tmp_path: Path) -> None:
    for name, rate in (("easy", 0.1), ("hard", 0.5)):
        for scoring, more in (("dot", 0.0), ("general", 0.02)):
            for seed in (1, 2):
                make_run(
                    tmp_path / f"{name}_{scoring}_{seed}",
                    {"test/perplexity": 1 + rate + more + seed / 1000},
                    seed=seed,
                    choices={"data": "text", "scoring": scoring},
                    options={"data": {"file": f"{name}.txt", "train_size": 3}},
                )
    found = compare_runs(find_runs([tmp_path]), View(), tmp_path)
    assert [section.name for section in found.sections] == [
        f"data=text data.file={name}.txt" for name in ("easy", "hard")
    ]
    assert all(
        section.summaries[0] == "best by perplexity (lowest): scoring=dot" for section in found.sections
    )
    along = compare_runs(find_runs([tmp_path]), View(x="data.file", y="test/perplexity"), tmp_path)
    (section,) = along.sections
    assert [block.options for block in section.blocks] == [
        {"data.file": f"{name}.txt"} for name in ("easy", "hard")
    ]


def test_the_same_file_by_a_relative_and_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, file in enumerate(("my.tsv", str(tmp_path / "my.tsv"), "./x/../my.tsv"), start=1):
        options = {"data": {"file": file, "test_file": None}}
        make_run(tmp_path / "runs" / f"{seed}", {RATE: seed / 10}, seed=seed, options=options)
    (section,) = compare_runs(find_runs([tmp_path / "runs"]), View(), tmp_path).sections
    (row,) = section.blocks[0].rows
    assert len(row.setting.jobs) == 3 and not section.name
