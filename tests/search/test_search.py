"""Searches: their space, the outcomes of their trials, and their results."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from folders import read_table

optuna = pytest.importorskip("optuna")

from hydra import compose, initialize_config_dir  # noqa: E402
from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from hydra.core.utils import JobReturn, JobStatus  # noqa: E402
from hydra.types import RunMode  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from optuna.distributions import (  # noqa: E402
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState  # noqa: E402

from attention_lab.commandline.overrides import as_text  # noqa: E402
from attention_lab.errors import LabError  # noqa: E402
from attention_lab.files.run_files import ERROR, METRICS, PRUNED  # noqa: E402
from attention_lab.search import trials  # noqa: E402
from attention_lab.search.jobs import SearchJobs  # noqa: E402
from attention_lab.search.space import Space, distribution_of  # noqa: E402
from attention_lab.search.storage import connect, storage_url  # noqa: E402
from attention_lab.search.study import Result, _suggest  # noqa: E402
from attention_lab.text_tables import number  # noqa: E402

CONF = Path(__file__).parents[2] / "conf"
NW = ["sweep=optuna", "model=nw", "trainer.max_epochs=2", "pictures=0", "logger=none"]


@pytest.mark.parametrize(
    ("syntax", "expected"),
    [
        ("interval(0.0,0.5)", FloatDistribution(0.0, 0.5)),
        ("interval(0,0.5)", FloatDistribution(0.0, 0.5)),
        ("tag(log,interval(1e-4,1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("interval(1,4)", FloatDistribution(1.0, 4.0)),
        ("int(interval(1,4))", IntDistribution(1, 4)),
        ("range(2,9,2)", IntDistribution(2, 8, step=2)),
        ("1,2,4", CategoricalDistribution(["1", "2", "4"])),
        ("choice(lstm,gru)", CategoricalDistribution(["lstm", "gru"])),
        ("choice('a b',2)", CategoricalDistribution(["a\\ b", "2"])),
    ],
)
def test_sweep_syntax_becomes_a_distribution(syntax: str, expected: object) -> None:
    assert distribution_of(OverridesParser.create().parse_override(f"key={syntax}")) == expected


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(0.0, 0.5),
        FloatDistribution(1e-4, 1e-2, log=True),
        IntDistribution(2, 8, step=2),
        IntDistribution(1, 100, log=True),
        CategoricalDistribution(["1", "2"]),
    ],
)
def test_values_are_proposed_from_the_distribution_itself(distribution: BaseDistribution) -> None:
    trial = optuna.create_study().ask()
    _suggest(trial, "key", distribution)
    assert trial.distributions == {"key": distribution}


@pytest.mark.parametrize(
    ("value", "state", "why"),
    [
        (0.5, "complete", ""),
        (2, "complete", ""),
        (float("nan"), "failed", "the best value is nan"),
        (
            None,
            "failed",
            "no checkpoint saved the metric's value: choose callbacks=default, no debug=fast_dev_run, and as "
            "many epochs and batches as a validation needs (trainer.check_val_every_n_epoch, "
            "trainer.limit_val_batches)",
        ),
    ],
)
def test_the_result_of_a_run(value: float | None, state: str, why: str, tmp_path: Path) -> None:
    config = OmegaConf.create({"hydra": {"runtime": {"output_dir": str(tmp_path)}}})
    job = JobReturn(hydra_cfg=config, status=JobStatus.COMPLETED)
    job.return_value = value
    wanted = Result(state, reason=why) if why else Result(state, value)
    assert trials.read_result(job) == wanted


@pytest.mark.parametrize("mode", [RunMode.MULTIRUN, RunMode.RUN])
def test_a_trial_starts_without_what_an_earlier_study_left(
    mode: RunMode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = {ERROR, METRICS, PRUNED}
    for name in left:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    hydra = {"mode": mode, "job": {"num": 0}, "runtime": {"output_dir": str(tmp_path)}}
    config = OmegaConf.create({"hydra": hydra, "resume": "auto", "stage": "fit"})
    SearchJobs().on_job_start(config, task_function=lambda config: None)
    assert {path.name for path in tmp_path.iterdir()} == (set() if mode == RunMode.MULTIRUN else left)
    assert capsys.readouterr().out == ""


def test_whom_a_search_waits_for_is_told_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    running = iter([[3, 5], [3, 5], [5], []])
    study: Any = SimpleNamespace(
        run_one=lambda job: None,  # all trials are claimed
        storage=SimpleNamespace(grace_period=120),
        trials=lambda state: [SimpleNamespace(number=number) for number in next(running)],
    )
    monkeypatch.setattr(trials, "POLL", 0.0)
    assert trials._run_trials(study, Space({}, {}, {}), lambda trial: Result("failed"), most_failures=3) == []
    said = [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [f"Waiting for trials of other processes: {others}" for others in ("3, 5", "5")]


def test_an_invalid_range_is_refused() -> None:
    with pytest.raises(LabError, match=r"key=tag\(log"):
        distribution_of(OverridesParser.create().parse_override("key=tag(log,interval(0.0,1.0))"))


@pytest.mark.parametrize("value", [1e-5, 0.1 + 0.2, 3e22, -0.0])
def test_a_number_is_written_exactly(value: float) -> None:
    assert OverridesParser.create().parse_override(f"key={as_text(value)}").value() == value


@pytest.mark.long
def test_a_search_writes_a_table_and_its_best_run_can_be_repeated(command, tmp_path: Path) -> None:
    options = [*NW, "normalizer.temperature=choice(1.0,0.0)", "scoring=gaussian", "scoring.width=1.0"]
    # With this seed only the first trial fails.
    options += ["sweep.study=s", "sweep/sampler=random", "sweep.sampler.seed=8", "sweep.failures=9"]
    done = command(*options, "sweep.trials=2")
    folder = tmp_path / "logs" / "search" / "s"
    rows = read_table(folder / "trials.csv")
    assert [(row["trial"], row["state"], row["normalizer.temperature"]) for row in rows] == [
        ("1", "complete", "1.0"), ("2", "complete", "1.0"), ("0", "failed", "0.0")
    ]  # fmt: skip
    assert rows[2]["why"].startswith("normalizer.temperature=0.0: choose a number above 0")
    assert "2 complete, 1 failed" in done.out
    assert "normalizer.temperature=1.0  validation loss 0." in done.out
    assert "validation loss" in next(line for line in done.out.splitlines() if "┃ state" in line)
    shown = number(float(rows[0]["validation/loss"]))
    assert f"\nBest: trial 1, validation loss {shown}: logs/search/s/trial_1\n" in done.out
    assert "\nTo train it: python train.py --config-dir logs/search/s experiment=best\n" in done.out
    assert "failed: trial 0: normalizer.temperature=0.0: choose a number above 0" in done.out
    assert done.status == 1
    assert done.err.startswith("Error: 1 trial failed; the last: normalizer.temperature")
    # The study is complete: the same command has nothing to run and no longer fails.
    again = command(*options, "sweep.trials=2")
    assert again.status == 0, again.err
    assert read_table(folder / "trials.csv") == rows
    refused = command(*options, "sweep.trials=9", "data.noise=0.5")
    assert refused.status == 1 and "started without data.noise" in refused.err
    best = command("--config-dir", str(folder), "experiment=best")
    assert best.status == 0, best.err
    metrics = (best.folder / "metrics.json").read_text()
    assert metrics.split('"fit/best": ')[1][:6] == rows[0]["validation/loss"][:6]


@pytest.mark.slow
def test_the_best_run_of_a_search_with_own_configurations_can_be_repeated(command, tmp_path: Path) -> None:
    """Hydra takes only one `--config-dir`, which is then that of the study."""
    own = tmp_path / "my conf"
    (own / "schedule").mkdir(parents=True)
    constant = (CONF / "schedule" / "constant.yaml").read_text(encoding="utf-8")
    (own / "schedule" / "flat.yaml").write_text(constant, encoding="utf-8")
    done = command(
        *("--config-dir", str(own), *NW, "schedule=flat", "scoring=gaussian", "scoring.width=0.5,1.0"),
        *("sweep.trials=1", "sweep.study=s"),
    )
    assert done.status == 0, done.err
    line = next(line for line in done.out.splitlines() if line.startswith("To train it: "))
    again = command(*shlex.split(line)[5:])
    assert again.status == 0, again.err
    assert "schedule: flat" in (again.folder / ".hydra" / "hydra.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_search_gives_up_after_too_many_failures(command, tmp_path: Path) -> None:
    done = command(
        *NW,
        "normalizer.temperature=choice(0.0,-1.0)",
        "scoring=gaussian",
        "sweep.failures=2",
        "sweep.study=s",
    )
    assert done.status == 1 and done.err.startswith(
        "Error: 2 trials failed; the last: normalizer.temperature="
    )
    rows = read_table(tmp_path / "logs" / "search" / "s" / "trials.csv")
    assert [row["state"] for row in rows] == ["failed", "failed"]


@pytest.mark.slow
def test_an_unpromising_run_is_pruned(command, tmp_path: Path) -> None:
    threshold = ["sweep/pruner=none", "sweep.pruner._target_=optuna.pruners.ThresholdPruner"]
    done = command(*NW, *threshold, "+sweep.pruner.upper=0.0", "sweep.trials=1", "sweep.study=s")
    assert done.status == 0, done.err
    folder = tmp_path / "logs" / "search" / "s"
    (row,) = read_table(folder / "trials.csv")
    assert row["state"] == "pruned" and row["why"].startswith("at validation 1, validation/loss ")
    assert "1 pruned" in done.out and "pruned at validation 1" in done.out
    assert not (folder / "trial_0" / "metrics.json").exists()
    assert not (folder / "experiment").exists()
    (trial,) = optuna.load_study(study_name="s", storage=connect(storage_url(None, folder))).trials
    assert trial.state == TrialState.PRUNED and list(trial.intermediate_values) == [1]


def test_a_storage_may_be_called_by_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_url(7, tmp_path) == storage_url("sqlite:///7", tmp_path)


@pytest.mark.parametrize("name", ["loop", "loop/study.db", "file/study.db"])
def test_a_storage_that_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=rf"^sweep\.storage=sqlite:///{tmp_path}/{name}: "):
        connect(storage_url(str(tmp_path / name), tmp_path))


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["sweep.trials=0"], ["sweep.trials=0", "1 or more"]),
        (["sweep.study="], ["sweep.study is empty: give a name"]),
        (["sweep.study=../x"], ["sweep.study=../x leads out of the folder of searches"]),
        (["sweep.space=nowhere"], ["sweep.space=nowhere is unknown", "seq2seq"]),
        (["sweep.storage=sqlite://"], ["sweep.storage=sqlite://", "study.db"]),
        (["sweep.storage=nosuch://x/y"], ["sweep.storage=nosuch://x/y"]),
        (
            ["monitor.metric=validation/losss"],
            ["monitor.metric=validation/losss: there is no such metric; choose validation/loss"],
        ),
        (["monitor.metric=null"], ["needs a metric", "monitor.metric="]),
        (["scoring=gaussian", "scoring.width=1"], ["nothing is searched", "interval("]),
    ],
    ids=lambda value: " ".join(value),
)
def test_invalid_options_of_a_search(options: list[str], parts: list[str], command) -> None:
    done = command(*NW, "sweep.failures=1", *options)
    assert done.status == 1
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err.splitlines()[-1]


def test_a_damaged_storage(command, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"no database" * 100)
    done = command(*NW, "sweep.storage=study.db")
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert "study.db" in line and "not a database" in line


@pytest.mark.parametrize("change", ["INSERT ON trials", "UPDATE ON trials"])
def test_a_database_that_refuses_changes_is_named_in_one_line(change: str, command, tmp_path: Path) -> None:
    """Its triggers may only refuse a change, but with any message. Optuna hides that of the last one."""
    connect(storage_url(str(tmp_path / "study.db"), tmp_path))
    trigger = (
        f"CREATE TRIGGER t BEFORE {change} FOR EACH ROW WHEN 1 = 1 "
        "BEGIN SELECT RAISE ( ABORT , 'no\x1b[2J' ) ; END"
    )
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(trigger)
    done = command(*NW, f"sweep.storage={tmp_path / 'study.db'}")
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert line.startswith("Error: sweep.storage=sqlite:///") and line.endswith("study.db: no\ufffd[2J")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", sorted(path.stem for path in (CONF / "search").glob("*.yaml")))
def test_the_space_of_a_model_only_names_existing_options(model: str) -> None:
    space = OmegaConf.load(CONF / "search" / f"{model}.yaml")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", [f"model={model}"])
    for key, syntax in space.items():
        known = (CONF / str(key)).is_dir() or OmegaConf.select(config, str(key), default="?") != "?"
        assert known, f"{model} has no {key}"
        option = OverridesParser.create().parse_override(f"{key}={syntax}")
        assert not option.is_sweep_override() or distribution_of(option)


def test_each_model_has_a_space() -> None:
    models, spaces = ({path.stem for path in (CONF / part).glob("*.yaml")} for part in ("model", "search"))
    assert spaces == models
