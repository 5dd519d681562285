"""A search: what it varies, how processes share it, how each of its runs may end, and what it leaves."""

import csv
import warnings
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from hydra import compose, initialize_config_dir  # noqa: E402
from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from optuna.distributions import (  # noqa: E402
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.search import study as study_module  # noqa: E402
from attention_lab.search.space import _distribution, write  # noqa: E402
from attention_lab.search.study import SharedStudy, state_name, storage_url  # noqa: E402

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
def test_what_is_searched(syntax: str, expected: object) -> None:
    assert _distribution(OverridesParser.create().parse_override(f"key={syntax}")) == expected


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(LabError, match=r"key=tag\(log"):
        _distribution(OverridesParser.create().parse_override("key=tag(log,interval(0.0,1.0))"))


@pytest.mark.parametrize("value", [1e-5, 0.1 + 0.2, 3e22, -0.0])
def test_a_number_is_written_as_it_is(value: float) -> None:
    assert OverridesParser.create().parse_override(f"key={write(value)}").value() == value


def test_storages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_url(None, Path("a b")) == f"sqlite:///{tmp_path}/a b/study.db"
    assert storage_url("x.db", Path("a")) == storage_url("sqlite:///x.db", Path("a"))
    assert storage_url("postgresql://me:secret@host/name", Path("a")) == "postgresql://me:secret@host/name"
    for wrong in ("sqlite://", "sqlite:///:memory:", "://x"):
        with pytest.raises(LabError, match=r"sweep\.storage="):
            storage_url(wrong, Path("a"))


def _join(folder: Path, wanted: int = 3, heartbeat: int = 60) -> SharedStudy:
    """One more process that works on the study."""
    return SharedStudy(
        name="study",
        url=storage_url(None, folder),
        folder=folder,
        wanted=wanted,
        heartbeat=heartbeat,
        largest=False,
        sampler=optuna.samplers.RandomSampler(),
        pruner=optuna.pruners.NopPruner(),
        distributions={"x": FloatDistribution(0.0, 1.0)},
    )


def _states(study: SharedStudy) -> list[str]:
    return [state_name(trial) for trial in study.trials()]


def test_processes_share_the_trials(tmp_path: Path) -> None:
    one, two = _join(tmp_path), _join(tmp_path)
    first, second, third = one.claim(), two.claim(), two.claim()
    assert first is not None and second is not None and third is not None
    assert [first.number, second.number, third.number] == [0, 1, 2]
    assert one.claim() is None and two.claim() is None
    assert one.running() == [0, 1, 2]
    # What fails is made up for, what is pruned is not.
    assert one.finish(first, "failed", reason="no") and two.finish(second, "pruned", reason="poor")
    fourth = one.claim()
    assert fourth is not None and two.claim() is None
    assert one.finish(fourth, "complete", 0.5) and two.finish(third, "complete", 0.25)
    assert _states(two) == ["failed", "pruned", "complete", "complete"]
    best = one.best()
    assert best is not None and best.number == 2
    assert _join(tmp_path).claim() is None
    assert _join(tmp_path, wanted=4).claim() is not None


def test_a_trial_that_is_broken_off_is_run_again(tmp_path: Path) -> None:
    study = _join(tmp_path, wanted=1)
    trial = study.claim()
    assert trial is not None
    with pytest.raises(KeyboardInterrupt), study.alive(trial):
        raise KeyboardInterrupt
    again = study.claim()
    assert again is not None and again.number == 1 and again.params == trial.params
    assert study.claim() is None
    assert _states(study) == ["killed", "running"]


def test_the_trial_of_a_silent_process_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "GRACE", 1)
    study = _join(tmp_path, wanted=1, heartbeat=60)
    trial = study.claim()
    assert trial is not None
    assert study.claim() is None
    study.storage.grace_period = -1  # every sign of life is too old
    again = study.claim()
    assert again is not None and again.params == trial.params
    # It was not dead: what it found comes too late, and counts once.
    assert not study.finish(trial, "complete", 0.5)
    assert study.finish(again, "complete", 0.25)
    assert _states(study) == ["killed", "complete"]


def test_a_process_that_dies_while_it_claims_loses_nothing(tmp_path: Path) -> None:
    study = _join(tmp_path, wanted=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.study.ask(study.distributions)
    trial = study.claim()
    assert trial is not None and trial.number == 1
    assert _states(study) == ["killed", "running"]


def test_a_study_keeps_its_options(tmp_path: Path) -> None:
    study = _join(tmp_path)
    study.keep_to({"a": "a=1", "b": "b=2"})
    study.keep_to({"a": "a=1", "b": "b=2"})
    with pytest.raises(LabError, match=r"begun with b=2.*sweep\.study=NAME"):
        study.keep_to({"a": "a=1", "b": "b=3"})
    with pytest.raises(LabError, match="begun with no c"):
        study.keep_to({"a": "a=1", "b": "b=2", "c": "c=1"})


def _table(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))


def test_a_search_ends_in_a_table_and_its_best_run_can_be_repeated(command, tmp_path: Path) -> None:
    options = [*NW, "normalizer.temperature=choice(1.0,0.0)", "scoring=gaussian", "scoring.width=1.0"]
    # With this seed the first trial fails, and no other.
    options += ["sweep.study=s", "sweep/sampler=random", "sweep.sampler.seed=8", "sweep.failures=9"]
    done = command(*options, "sweep.trials=2")
    folder = tmp_path / "logs" / "search" / "s"
    rows = _table(folder)
    assert [(row["trial"], row["state"], row["normalizer.temperature"]) for row in rows] == [
        ("1", "complete", "1.0"), ("2", "complete", "1.0"), ("0", "failed", "0.0")
    ]  # fmt: skip
    assert rows[2]["why"].startswith("normalizer.temperature must be above 0")
    assert "2 complete, 1 failed" in done.out
    assert "failed: trial 0: normalizer.temperature must be above 0" in done.out
    assert done.status == 1
    assert done.err.startswith("Error: 1 trial failed; the last: normalizer.temperature")
    # It is finished: the same command has nothing to run, and fails no more.
    again = command(*options, "sweep.trials=2")
    assert again.status == 0, again.err
    assert _table(folder) == rows
    refused = command(*options, "sweep.trials=9", "data.noise=0.5")
    assert refused.status == 1 and "begun with no data.noise" in refused.err
    best = command("--config-dir", str(folder), "experiment=best")
    assert best.status == 0, best.err
    metrics = (best.folder / "metrics.json").read_text()
    assert metrics.split('"fit/best": ')[1][:6] == rows[0]["validation/loss"][:6]


def test_a_search_gives_up_after_so_many_failures(command, tmp_path: Path) -> None:
    done = command(
        *NW,
        "normalizer.temperature=choice(0.0,-1.0)",
        "scoring=gaussian",
        "sweep.failures=2",
        "sweep.study=s",
    )
    assert done.status == 1 and done.err.startswith(
        "Error: 2 trials failed; the last: normalizer.temperature must"
    )
    assert [row["state"] for row in _table(tmp_path / "logs" / "search" / "s")] == ["failed", "failed"]


def test_a_run_without_prospects_is_stopped(command, tmp_path: Path) -> None:
    threshold = ["sweep/pruner=none", "sweep.pruner._target_=optuna.pruners.ThresholdPruner"]
    done = command(*NW, *threshold, "+sweep.pruner.upper=0.0", "sweep.trials=1", "sweep.study=s")
    assert done.status == 0, done.err
    folder = tmp_path / "logs" / "search" / "s"
    (row,) = _table(folder)
    assert row["state"] == "pruned" and row["why"].startswith("at validation 1, validation/loss ")
    assert "1 pruned" in done.out and "pruned at validation 1" in done.out
    assert not (folder / "trial_0" / "metrics.json").exists()
    assert not (folder / "experiment").exists()
    (trial,) = optuna.load_study(study_name="s", storage=storage_url(None, folder)).trials
    assert trial.state == TrialState.PRUNED and list(trial.intermediate_values) == [1]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["sweep.trials=0"], ["sweep.trials=0", "1 or more"]),
        (["sweep.space=nowhere"], ["sweep.space=nowhere is unknown", "seq2seq"]),
        (["sweep.storage=sqlite://"], ["sweep.storage=sqlite://", "study.db"]),
        (["sweep.storage=nosuch://x/y"], ["sweep.storage=nosuch://x/y"]),
        (["monitor.metric=validation/losss"], ["validation/losss is not measured", "validation/loss"]),
        (["monitor.metric=null"], ["needs a metric", "monitor.metric="]),
        (["scoring=gaussian", "scoring.width=1"], ["nothing is searched", "interval("]),
    ],
    ids=lambda value: " ".join(value),
)
def test_what_a_search_refuses(options: list[str], parts: list[str], command) -> None:
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


@pytest.mark.parametrize("model", sorted(path.stem for path in (CONF / "search").glob("*.yaml")))
def test_the_space_of_a_model_names_its_options(model: str) -> None:
    space = OmegaConf.load(CONF / "search" / f"{model}.yaml")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", [f"model={model}"])
    for key, syntax in space.items():
        known = (CONF / str(key)).is_dir() or OmegaConf.select(config, str(key), default="?") != "?"
        assert known, f"{model} has no {key}"
        option = OverridesParser.create().parse_override(f"{key}={syntax}")
        assert not option.is_sweep_override() or _distribution(option)


def test_each_model_has_a_space() -> None:
    models, spaces = ({path.stem for path in (CONF / part).glob("*.yaml")} for part in ("model", "search"))
    assert spaces == models
