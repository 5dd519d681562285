"""A leaderboard of run folders that are damaged or have malicious names."""

import csv
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run, read_table

from attention_lab.files.run_files import ERROR
from attention_lab.leaderboard.board import compare_runs, write_leaderboard
from attention_lab.leaderboard.settings import varied_options
from attention_lab.leaderboard.view import View
from attention_lab.runs.run_folder import find_runs, read_job

Command = Callable[..., Any]
NASTY = "=1+1|[red]x[/red]\n<b>\x1b[31m`"


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("{", "metrics.json cannot be read"),
        ("[1]", "metrics.json contains no metrics"),
        ("{}", "metrics.json contains no metrics"),
        ('{"test/token_error_rate": "low"}', "test/token_error_rate is 'low', not a number"),
        ('{"a": true}', "a is 'True', not a number"),
        ('{"a": 1' + "0" * 400 + "}", "too large"),
        ("[" * 100_000, "metrics.json cannot be read"),
        ("\ud800", "metrics.json cannot be read"),
    ],
)
def test_damaged_metrics_are_a_listed_failure(metrics: str, said: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "metrics.json").write_bytes(metrics.encode("utf-8", "surrogatepass"))
    error = read_job(run).error
    assert error is not None and said in error and "\n" not in error


@pytest.mark.parametrize("sign", [1, -1])
def test_an_enormous_metric_counts_as_not_finite(sign: int, tmp_path: Path) -> None:
    rates = [sign * 1.7e308, sign * 1.7e308, 0.5, 0.5, 0.5]
    seeds, scores = [0, 0, 0, 1, 2], ["dot", "dot", "additive", "additive", "additive"]
    jobs = [
        read_job(make_run(tmp_path / str(place), {RATE: rate}, seed=seed, choices={"scoring": score}))
        for place, (rate, seed, score) in enumerate(zip(rates, seeds, scores, strict=True))
    ]
    assert [job.metrics[RATE] for job in jobs] == [sign * math.inf] * 2 + [0.5] * 3
    jobs.append(read_job(make_run(tmp_path / "6", {RATE: -sign * math.inf}, choices={"scoring": "dot"})))
    (section,) = compare_runs(jobs, View(), tmp_path).sections
    assert [(row.setting.options["scoring"], row.verdict) for row in section.rows] == [
        ("additive", "best"),
        ("dot", "open"),
    ]


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("a: [", "config.yaml cannot be read"),
        ("- 1", "config.yaml contains no options"),
        ("\x00", "config.yaml cannot be read"),
        ("a: !!python/object/apply:os.system [exit]", "config.yaml cannot be read"),
        ("model: &model\n  inner: *model\n", "config.yaml cannot be read: it has references"),
    ],
)
def test_a_damaged_configuration_is_a_listed_failure(
    config: str, said: str, command: Command, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", {RATE: 0.1})
    (run / "config.yaml").write_text(config)
    error = read_job(run).error
    assert error is not None and said in error and "\n" not in error
    make_run(tmp_path / "other", {RATE: 0.1})
    done = command("stage=leaderboard", f"run={tmp_path}")
    assert done.status == 0 and said in done.out


def test_runs_with_too_many_options_are_listed_failures(tmp_path: Path) -> None:
    many = {f"o{number}": 0 for number in range(2_001)}
    wide = read_job(make_run(tmp_path / "wide", {RATE: 0.1}, options={"model": many}))
    assert wide.error == "config.yaml has more than 2,000 options, more than any run has"
    typed = read_job(make_run(tmp_path / "typed", {RATE: 0.1}, overrides=[f"a.{key}=1" for key in many]))
    assert typed.error == "overrides.yaml has more than 2,000 options, more than any run has"
    assert (typed.options, typed.overrides, typed.metrics) == ({}, {}, {})
    crowded = read_job(make_run(tmp_path / "crowded", {str(number): 0.1 for number in range(10_001)}))
    assert crowded.error == "metrics.json has more than 10,000 metrics, more than any run has"
    stopped = read_job(make_run(tmp_path / "stopped", options={"model": {"layers": 3}}))
    assert stopped.error is not None and stopped.value("model.layers") == 3


@pytest.mark.long
def test_runs_with_too_many_different_options_are_refused(command: Command, tmp_path: Path) -> None:
    """Otherwise the time would be the product of runs and options, such as an hour for 1,000 runs."""
    for run in range(3):
        options = {"model": {f"o{run}_{number}": None for number in range(1_700)}}
        make_run(tmp_path / str(run), {RATE: 0.1}, options=options)
    assert varied_options([read_job(tmp_path / "0"), read_job(tmp_path / "1")]) == []
    for stage in ("leaderboard", "report"):
        done = command(f"stage={stage}", f"run={tmp_path}")
        assert done.status == 1
        assert done.err == "Error: the runs have more than 5,000 different options: compare fewer of them\n"


def test_options_that_vary_are_found_in_linear_time(tmp_path: Path) -> None:
    jobs = []
    for seed in (1, 2):
        overrides = [f"a.o{number}={seed}" for number in range(1_000)]
        options = {"model": {f"o{number}": 0 for number in range(1_500)}}
        jobs.append(
            read_job(make_run(tmp_path / str(seed), {RATE: 0.1}, overrides=overrides, options=options))
        )
    start = time.process_time()
    assert varied_options(jobs) == [f"a.o{number}" for number in range(1_000)]
    assert time.process_time() - start < 1


def test_strange_files_read_as_plain_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "told")
    run = make_run(tmp_path / "run", {RATE: 0.1}, options={"model": {"name": "${oc.env:SECRET}", 3: [1]}})
    assert read_job(run).value("model.name") == "${oc.env:SECRET}"
    (run / "config.yaml").write_text("stage: fit\ntrainer: 3\n")
    (run / ".hydra" / "overrides.yaml").write_text("{")
    (run / ".hydra" / "hydra.yaml").write_text("hydra: 3")
    job = read_job(run)
    assert job.error is None and job.choices == {} and job.overrides == {}
    assert varied_options([job, job]) == []
    (run / "config.yaml").unlink()
    (run / ".hydra" / "config.yaml").unlink()
    assert read_job(run).error == "config.yaml is missing"


def test_hostile_names_stay_text(command: Command, tmp_path: Path) -> None:
    for seed, (name, rate) in enumerate([(NASTY, 0.2), (NASTY, 0.3), ("dot", 0.1), ("dot", 0.1)]):
        metrics = {RATE: rate, f"test/{NASTY}": 1.0, NASTY: 2.0}
        make_run(tmp_path / "runs" / str(seed), metrics, seed=seed % 2, choices={"scoring": name})
    (make_run(tmp_path / "runs" / "bad", overrides=[f"x={NASTY}"]) / ERROR).write_text(NASTY)
    done = command("stage=leaderboard", f"run={tmp_path}/runs")
    assert (done.status, done.err) == (0, "")
    assert "\x1b" not in done.out and "[red]x[/red]" in done.out
    with (tmp_path / "runs" / "leaderboard.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 3 and rows[2][0].startswith("'=1+1|[red]")
    assert not any(cell.startswith(("=", "@", "+")) for row in rows for cell in row)
    lines = (tmp_path / "runs" / "leaderboard.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4 and len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "<b>" not in "".join(table) and "\\[red\\]" in table[-1]
    assert (tmp_path / "runs" / "leaderboard.png").is_file()


def test_no_cell_of_the_csv_file_is_a_formula(command: Command, tmp_path: Path) -> None:
    metric = "=1+1"
    monitor = {"monitor": {"metric": metric, "mode": "min"}}
    for name in (" =1+1", "\uff1d1+1", ";=1+1", "-0.5"):
        make_run(tmp_path / "runs" / name, {metric: -0.5}, choices={"scoring": name}, options=monitor)
    view = f"hydra.callbacks.comparison.y='{metric}'"
    assert command("stage=leaderboard", f"run={tmp_path}/runs", view).status == 0
    rows = read_table(tmp_path / "runs" / "leaderboard.csv")
    assert {row["scoring"] for row in rows} == {"' =1+1", "'\uff1d1+1", ";'=1+1", "-0.5"}
    assert {row["compared by"] for row in rows} == {"'=1+1"}
    assert {row["'=1+1"] for row in rows} == {"-0.5"}


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("tags", [{"tags": ["a"]}, {"tags": ["b"]}]),
        ("data.noise", [{"data": {"noise": 1}}, {"data": {"noise": 10**98}}]),
    ],
)
def test_options_that_are_lists_or_enormous_are_drawn(key: str, options: list[Any], tmp_path: Path) -> None:
    for number, one in enumerate(options):
        make_run(tmp_path / str(number), {RATE: 0.5}, options=one)
    write_leaderboard(tmp_path, find_runs([tmp_path]), View(x=key, y=RATE))
    assert (tmp_path / "comparison.png").is_file()


def test_a_test_of_a_checkpoint_with_a_name_that_is_too_long(tmp_path: Path) -> None:
    run = make_run(tmp_path, {RATE: 0.5})
    (run / "config.yaml").write_text(f"stage: test\nckpt_path: {'x' * 3000}/a/b\n")
    assert read_job(run).metrics[RATE] == 0.5


@pytest.mark.parametrize("name", [ERROR, "config.yaml", "metrics.json", ".hydra", ".hydra/config.yaml"])
def test_what_is_in_files_outside_is_not_repeated(name: str, tmp_path: Path) -> None:
    """A run's folder may have links to files that only its reader can read."""
    run, outside = make_run(tmp_path / "run"), tmp_path / "outside"
    outside.mkdir() if name == ".hydra" else outside.write_text('{"password": 1234}')
    if (run / name).is_dir():
        (run / name).rename(tmp_path / "moved")
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(outside)
    job = read_job(run)
    assert job.error == f"{run / name} links out of the run's folder: replace it with a copy"
    assert "1234" not in str(job)


@pytest.mark.parametrize(("place", "title"), [("sweep/own.yaml", "shown"), ("outside.yaml", "1 run")])
def test_the_configuration_of_a_sweep_is_in_its_folder(
    place: str, title: str, command: Command, tmp_path: Path
) -> None:
    make_run(tmp_path / "sweep" / "0", {RATE: 0.5})
    (tmp_path / place).write_text("hydra: {callbacks: {comparison: {title: shown}}}")
    (tmp_path / "sweep" / "multirun.yaml").symlink_to(tmp_path / place)
    assert command("stage=leaderboard", f"run={tmp_path}/sweep").status == 0
    assert (tmp_path / "sweep" / "leaderboard.md").read_text().startswith(f"# {title}\n")


def test_a_test_does_not_read_the_folder_that_it_names(tmp_path: Path) -> None:
    """Whatever `ckpt_path` a run's file has, only folders that the user gives are read."""
    options = {"optimizer": {"password": 1234}, "trainer": {"password": 1234}}
    make_run(tmp_path / "outside", {RATE: 0.1}, seed=1234, options=options, choices={"scoring": "p1234"})
    run = make_run(tmp_path / "run", {RATE: 0.1})
    (run / "config.yaml").write_text(f"{{stage: test, seed: 1, ckpt_path: {tmp_path}/outside}}")
    job = read_job(run)
    assert job.error is None and job.config["stage"] == "test"
    assert "1234" not in f"{job} {job.options}"


def test_a_run_may_be_a_link_and_have_links_inside_it_and_its_checkpoints_elsewhere(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {RATE: 0.5})
    (tmp_path / "checkpoints").mkdir()
    (run / "checkpoints").symlink_to(tmp_path / "checkpoints")
    (run / "metrics.json").rename(run / "numbers.json")
    (run / "metrics.json").symlink_to("numbers.json")
    (tmp_path / "best").symlink_to(run)
    assert read_job(tmp_path / "best").error is None
