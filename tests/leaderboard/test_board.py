"""`stage=leaderboard`: from any folders of runs to a table, its files and its picture."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run, make_sweep, read_table
from PIL import Image

from attention_lab.files.run_files import ERROR, PRUNED
from attention_lab.leaderboard.settings import Setting, group_runs, varied_options
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import find_runs, read_job

Command = Callable[..., Any]
RATES = {"dot": [0.10, 0.11, 0.12], "general": [0.11, 0.10, 0.125], "constant": [0.7, 0.71, 0.72]}
WORDS = (
    "best by token error rate (lowest): scoring=dot",
    "not distinguishable from it at 95%: scoring=general",
    "worse: scoring=constant",
)


def test_a_sweep_is_ranked_in_words_and_in_files(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = make_sweep(tmp_path / "sweep", RATES)
    done = command("stage=leaderboard", f"run={folder}")
    assert (done.status, done.err) == (0, "")
    assert "\n".join(WORDS) in done.out and "Leaderboard: sweep/leaderboard.{csv,md,png}" in done.out
    assert "not shown" not in done.out
    rows = read_table(folder / "leaderboard.csv")
    assert [(row["scoring"], row["n"], row["verdict"]) for row in rows] == [
        ("dot", "3", "best"), ("general", "3", "tied"), ("constant", "3", "worse")
    ]  # fmt: skip
    assert float(rows[2]["difference"]) == pytest.approx(0.6)
    assert float(rows[0]["parameters"]) == 1000 and float(rows[0]["fit/steps_per_second"]) == 22
    markdown = (folder / "leaderboard.md").read_text()
    assert (
        "\n\n".join(WORDS) in markdown
        and "| dot | 3 | 0.1100 ± 0.0100 | 0.0852 to 0.1348 | best |" in markdown
    )
    with Image.open(folder / "leaderboard.png") as picture:
        assert picture.size[0] > 500


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "begins", "link"),
    [pytest.param("svg", b"<?xml", "![", marks=pytest.mark.slow), ("pdf", b"%PDF", "\n[")],
)
def test_pictures_are_files_of_the_format_that_is_asked_for(
    command: Command, tmp_path: Path, kind: str, begins: bytes, link: str
) -> None:
    folder = make_sweep(tmp_path / "sweep", RATES)
    axes = [f"hydra.callbacks.comparison.{key}={value}" for key, value in (("x", "scoring"), ("y", RATE))]
    done = command("stage=leaderboard", f"run={folder}", f"pictures_format={kind}", *axes)
    assert (done.status, done.err) == (0, "") and "pruned" not in done.out  # the fonts of a PDF are
    for name in ("leaderboard", "comparison"):
        content = (folder / f"{name}.{kind}").read_bytes()
        assert content.startswith(begins)
        assert f"]({name}.{kind})" in (folder / "leaderboard.md").read_text()
    assert link in (folder / "leaderboard.md").read_text() and not list(folder.glob("*.png"))


@pytest.mark.long
def test_a_narrow_console_names_the_columns_that_it_leaves_out(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_sweep(tmp_path / "sweep", RATES)
    monkeypatch.setenv("COLUMNS", "100")
    narrow = command("stage=leaderboard", f"run={folder}").out
    assert "\nnot shown, but in leaderboard.md and leaderboard.csv: parameters, steps/s" in narrow
    assert max(len(line) for line in narrow.splitlines() if line[:1] in "┃│┏") <= 100
    alone = command("stage=leaderboard", f"run={folder / 'dot_1'}").out
    assert "1 run" in alone and "best" not in alone
    monkeypatch.setenv("COLUMNS", "46")
    narrowest = command("stage=leaderboard", f"run={folder}").out
    assert "│ general  │ 3 │" in narrowest  # no word is broken
    assert "leaderboard.csv: against the best, p, parameters" in narrowest
    assert max(len(line) for line in narrowest.splitlines() if line[:1] in "┃│┏") <= 46
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = command("stage=leaderboard", f"run={folder}").out.splitlines()
    (best,), (other,) = (
        [line for line in lines if name in line and "│" in line] for name in ("dot", "general")
    )
    assert "\x1b[1m" in best and "\x1b[1m" not in other


@pytest.mark.long
def test_folders_lists_and_patterns_are_put_together(command: Command, tmp_path: Path) -> None:
    make_sweep(tmp_path / "logs" / "a", {"dot": [0.1, 0.2]})
    make_sweep(tmp_path / "logs" / "b", {"general": [0.3, 0.4]})
    make_run(tmp_path / "logs" / "c" / "single", {RATE: 0.3}, seed=3, choices={"scoring": "dot"})
    for given in ('run="logs/*"', "run=[logs/a,logs/b,logs/c]", "run=[logs/a,logs]"):
        done = command("stage=leaderboard", given)
        assert done.status == 0, done.err
        rows = read_table(done.folder / "leaderboard.csv")
        assert [(row["scoring"], row["n"]) for row in rows] == [("dot", "3"), ("general", "2")]


def test_failed_and_interrupted_runs_are_listed_with_their_reasons(command: Command, tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "sweep", {"dot": [0.1, 0.2]})
    (make_run(folder / "failed", overrides=["scoring=cosine"]) / ERROR).write_text("no memory\nTraceback")
    make_run(folder / "killed", overrides=["scoring=linear"])
    (make_run(folder / "stopped", overrides=["scoring=general"]) / PRUNED).write_text("0.9 at step 5\n")
    make_run(folder / "predicted", stage="predict")
    done = command("stage=leaderboard", f"run={folder}")
    assert done.status == 0
    failed, interrupted, pruned = sorted(line for line in done.out.splitlines() if " of 5 " in line)
    assert failed == "1 of 5 runs failed (scoring=cosine): no memory"
    assert interrupted.startswith("1 of 5 runs interrupted (scoring=linear): no metrics.json: the ")
    assert pruned == "1 of 5 runs pruned (scoring=general): 0.9 at step 5"
    markdown = (folder / "leaderboard.md").read_text()
    assert "- 1 failed: `no memory`\n    - `scoring=cosine` in `failed`\n" in markdown


def test_runs_that_all_failed_have_no_leaderboard(command: Command, tmp_path: Path) -> None:
    for seed in (1, 2):
        run = make_run(tmp_path / "runs" / str(seed), overrides=[f"seed={seed}"])
        (run / ERROR).write_text("no <memory>\n")
    done = command("stage=leaderboard", f"run={tmp_path}/runs")
    assert (done.status, done.out) == (1, "")
    assert done.err == "Error: nothing to compare: 2 of 2 runs failed: no <memory>\n"
    assert not list((tmp_path / "runs").glob("leaderboard*"))


def test_runs_without_overrides_are_told_apart_by_their_configurations(tmp_path: Path) -> None:
    for rate in (0.1, 0.2):
        for seed in (1, 2):
            options = {"data": {"seed": seed, "size": 5}, "optimizer": {"lr": rate, "eps": 1.0}}
            make_run(tmp_path / f"{rate}_{seed}", {RATE: rate}, seed=seed, options=options)
    jobs = find_runs([tmp_path])
    assert varied_options(jobs) == ["optimizer.lr"]  # not data.seed, which is the seed, nor its own folder
    assert [len(cell.jobs) for cell in group_runs(jobs, varied_options(jobs))] == [2, 2]


def test_a_test_has_the_seed_of_the_run_whose_checkpoint_it_tests(tmp_path: Path) -> None:
    trained = make_run(tmp_path / "trained", {RATE: 0.1}, seed=7)
    options = {"ckpt_path": str(trained / "checkpoints" / "best.ckpt")}
    tested = make_run(tmp_path / "tested", {RATE: 0.1}, stage="test", options=options)
    assert read_job(tested).seed == "7"
    both = {"ckpt_path": [options["ckpt_path"]] * 2}
    ensemble = make_run(tmp_path / "ensemble", {RATE: 0.05}, stage="test", options=both)
    jobs = [read_job(one) for one in (tested, ensemble)]
    assert varied_options(jobs) == ["ckpt_path"]


@pytest.mark.long
def test_along_an_axis_each_value_has_its_best(command: Command, tmp_path: Path) -> None:
    for size, best in ((10, "dot"), (20, "general")):
        for scoring in ("dot", "general"):
            for seed in (1, 2, 3):
                rate = (0.1 if scoring == best else 0.5) + seed / 1000
                options = {"data": {"train_size": size}}
                path = tmp_path / "runs" / f"{size}{scoring}{seed}"
                make_run(path, {RATE: rate}, seed=seed, options=options, choices={"scoring": scoring})
    compare = "hydra.callbacks.comparison"
    axes = [f"{compare}.x=data.train_size", f"{compare}.y={RATE}", f"{compare}.group=scoring"]
    done = command("stage=leaderboard", f"run={tmp_path}/runs", *axes)
    assert (done.status, done.err) == (0, "")
    for size, best, other in ((10, "dot", "general"), (20, "general", "dot")):
        where = f"data.train_size={size}: "
        assert f"{where}best by token error rate (lowest): scoring={best}\n" in done.out
        assert f"{where}worse: scoring={other}\n" in done.out
    assert (tmp_path / "runs" / "comparison.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_runs_on_different_data_are_drawn_in_a_plot_each(
    command: Command, tmp_path: Path, monkeypatch
) -> None:
    drawn = []

    def draw(rows: list[Setting], view: View, title: str, _: str) -> bytes:
        drawn.append((title, [(cell.options[view.x], cell.values(view.y)) for cell in rows]))
        return b"a picture"

    monkeypatch.setattr("attention_lab.leaderboard.board.draw_axes", draw)
    for data, size, seed in product(("copy", "../sort"), (10, 20), (1, 2)):
        rate = 0.25 * seed + (0.5 if data == "copy" else 0.0)
        path = tmp_path / "runs" / f"{data[-4:]}{size}{seed}"
        make_run(
            path, {RATE: rate}, seed=seed, options={"data": {"train_size": size}}, choices={"data": data}
        )
    compare = "hydra.callbacks.comparison"
    axes = [f"{compare}.x=data.train_size", f"{compare}.y={RATE}", f"{compare}.title=Letters"]
    done = command("stage=leaderboard", f"run={tmp_path}/runs", *axes)
    assert (done.status, done.err) == (0, "") and "\nComparison: runs/comparison_sort.png\n" in done.out
    assert drawn == [
        (f"Letters: data={data}", [(size, {"1": low, "2": low + 0.25}) for size in (10, 20)])
        for data, low in (("copy", 0.75), ("../sort", 0.25))
    ]
    names = {path.name for path in (tmp_path / "runs").glob("*.png")}
    assert names == {"leaderboard.png", "comparison_copy.png", "comparison_sort.png"}
    assert "![Letters](comparison_copy.png)" in (tmp_path / "runs" / "leaderboard.md").read_text()


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["run="], "stage=leaderboard needs run=<folder of"),  # without run=: test_report_page
        (["run=missing"], "run=missing is not a folder"),
        (['run="missing/*"'], "run=missing/*: no folder matches"),
        (["run=[]"], "run=[]: give the folder of a run or a sweep, or a list of them"),
        (["run=empty"], "run=empty: no runs found"),
        (["run=some", "++tags=a"], "tags=a: give a list, as in 'tags=[a]'"),
    ],
)
def test_what_is_no_folder_of_runs_is_said_in_one_line(
    given: list[str], said: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    make_run(tmp_path / "some" / "run", {RATE: 0.1})
    done = command("stage=leaderboard", *given)
    assert done.status == 1
    assert said in done.err and done.err.count("\n") == 1


@pytest.mark.long
def test_a_run_alone_keeps_the_reason_of_its_failure_until_it_runs_again(command: Command) -> None:
    nw = ["model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none"]
    failed = command(*nw, "monitor.metric=validation/missing")
    assert failed.status == 1
    (job,) = find_runs([failed.folder])
    assert f"Error: {job.error}\n" == failed.err and "validation/missing" in failed.err
    assert (failed.folder / ERROR).read_text() == f"{job.error}\n"
    assert command(*nw, folder=failed.folder).status == 0
    (job,) = find_runs([failed.folder])
    assert job.error is None and job.metrics == json.loads((failed.folder / "metrics.json").read_text())


def test_a_test_has_the_choices_of_the_run_whose_checkpoint_it_tests(tmp_path: Path) -> None:
    trained = make_run(tmp_path / "trained", choices={"data": "sort", "scoring": "dot", "trainer": "ddp"})
    options = {"ckpt_path": str(trained / "checkpoints" / "best.ckpt")}
    now = {"data": "copy", "scoring": "additive", "trainer": "default"}
    tested = make_run(tmp_path / "tested", stage="test", options=options, choices=now)
    assert read_job(tested).choices == {"data": "sort", "scoring": "dot", "trainer": "default"}
    other = make_run(tmp_path / "o", stage="test", options=options, choices=now, overrides=["data=copy"])
    assert read_job(other).choices == {"data": "copy", "scoring": "dot", "trainer": "default"}
    moved = {"ckpt_path": "moved.ckpt", "data": {"_target_": "attention_lab.data.toy.Reverse"}}
    unknown = read_job(make_run(tmp_path / "u", stage="test", options=moved, choices=now))
    assert unknown.choices == {"trainer": "default"} and unknown.value("data") == "Reverse"


def test_a_table_tells_its_runs_and_whole_numbers_and_no_rate_that_there_is_not(
    command: Command, tmp_path: Path
) -> None:
    accuracy = "test/accuracy"
    for seed, value in ((1, 0.7), (2, 0.9)):
        metrics = {accuracy: value, "parameters": 1.0}
        make_run(tmp_path / "runs" / str(seed), metrics, seed=seed, choices={"data": "karate"})
    options = {"data": {"test_size": 20}}
    make_run(tmp_path / "runs" / "other", {RATE: 0.5}, choices={"data": "reverse"}, options=options)
    done = command("stage=leaderboard", f"run={tmp_path}/runs")
    assert done.status == 0, done.err
    assert done.out.startswith("1 setting, 2 runs · data=karate\n")
    assert "1 run · data=reverse data.test_size=20" in done.out and "=null" not in done.out
    lines = (tmp_path / "runs" / "leaderboard.md").read_text().splitlines()
    (row,) = (line for line in lines if line.startswith("| 2 |"))
    assert row == "| 2 | 0.8000 ± 0.1414 | 0.0000 to 1.0000 | 1 |"
    (kept,) = (
        one for one in read_table(tmp_path / "runs" / "leaderboard.csv") if one["section"] == "data=karate"
    )
    assert (float(kept[f"{accuracy} low"]), float(kept[f"{accuracy} high"])) == (0, 1)


def test_tags_that_no_run_has_are_named_beside_those_that_some_have(command: Command, tmp_path: Path) -> None:
    plain = make_run(tmp_path / "plain", {RATE: 0.1})
    tagged = [make_run(tmp_path / tag, {RATE: 0.1}, options={"tags": [tag, "b"]}) for tag in ("a", "c")]
    done = command("stage=leaderboard", f"run=[{tagged[0]},{tagged[1]}]", "tags=[a,c]")
    runs = f"run=[{tagged[0]},{tagged[1]}]"
    assert done.err == f"Error: tags=[a,c]: no run in {runs} has all of these tags; its runs have a, b, c\n"
    done = command("stage=leaderboard", f"run={plain}", "tags=[a]")
    assert done.err == f"Error: tags=[a]: no run in run={plain} has all of these tags; its runs have none\n"
