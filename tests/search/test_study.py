"""A study shared by several processes: which of them runs each trial, and what happens when one dies."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

optuna = pytest.importorskip("optuna")

from optuna.trial import Trial, TrialState  # noqa: E402
from studies import join_study  # noqa: E402

from attention_lab.errors import LabError, Stopped  # noqa: E402
from attention_lab.search.report import table_row  # noqa: E402
from attention_lab.search.space import Space  # noqa: E402
from attention_lab.search.storage import connect, storage_url  # noqa: E402
from attention_lab.search.study import REASON, Result, SharedStudy, state_name  # noqa: E402


def test_storages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_url(None, Path("a b")) == f"sqlite:///{tmp_path}/a b/study.db"
    assert storage_url("x.db", Path("a")) == storage_url("sqlite:///x.db", Path("a"))
    assert storage_url("postgresql://me@host/name", Path("a")) == "postgresql://me@host/name"
    for wrong in ("sqlite://", "sqlite:///:memory:", "://x"):
        with pytest.raises(LabError, match=r"sweep\.storage="):
            storage_url(wrong, Path("a"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="reads /proc")
def test_the_file_of_a_study_is_closed_after_each_use(tmp_path: Path) -> None:
    study = optuna.create_study(storage=connect(storage_url(None, tmp_path)))
    opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert study.trials == [] and str(tmp_path / "study.db") not in opened


@pytest.mark.parametrize(
    "extra",
    [
        "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN SELECT 1; END",
    ],
)
def test_a_database_with_queries_of_its_own_is_rejected(extra: str, tmp_path: Path) -> None:
    url = storage_url(str(tmp_path / "study.db"), tmp_path)
    connect(url)
    with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(extra)
    with pytest.raises(LabError, match=r"sweep.storage=.*study.db: its (view v|trigger t) runs code"):
        connect(url)


def test_options_of_another_study_are_cut_in_the_message(tmp_path: Path) -> None:
    study = join_study(tmp_path)
    study.check_options({"a": "b\x1b" * 10_000})
    with pytest.raises(LabError, match=r"was started with b\ufffdb.*…, not without a: use") as raised:
        study.check_options({})
    assert len(str(raised.value)) < 500


def test_trials_of_another_study_control_no_terminal(tmp_path: Path) -> None:
    trial = optuna.trial.create_trial(
        state=TrialState.FAIL,
        params={"x": "\x1b]0;x\x07"},
        distributions={"x": optuna.distributions.CategoricalDistribution(["\x1b]0;x\x07"])},
        user_attrs={REASON: "no \x1b[2Jfile"},
    )
    space = Space({}, {"x": None}, {})  # type: ignore[dict-item]
    assert table_row(trial, space) == ["-1", "failed", "", "\ufffd]0;x\ufffd", "no \ufffd[2Jfile"]


def _states(study: SharedStudy) -> list[str]:
    return [state_name(trial) for trial in study.trials()]


def _too_many(_: Trial) -> NoReturn:
    pytest.fail("a trial too many")


def test_processes_share_the_trials(tmp_path: Path) -> None:
    one, two = join_study(tmp_path), join_study(tmp_path)
    numbers: list[int] = []

    def first(trial: Trial) -> Result:  # while it runs, the other process runs a trial too
        numbers.append(trial.number)
        assert two.run_one(second) == Result("pruned", reason="poor")
        return Result("failed", reason="no")

    def second(trial: Trial) -> Result:
        numbers.append(trial.number)
        assert join_study(tmp_path).run_one(third) == Result("complete", 0.25)
        return Result("pruned", reason="poor")

    def third(trial: Trial) -> Result:
        numbers.append(trial.number)
        assert join_study(tmp_path).run_one(_too_many) is None
        assert [one.number for one in two.trials(TrialState.RUNNING)] == [0, 1, 2]
        return Result("complete", 0.25)

    assert one.run_one(first) == Result("failed", reason="no")
    assert numbers == [0, 1, 2]

    # A failed trial is replaced by another one; a pruned trial is not.
    def fourth(trial: Trial) -> Result:
        assert two.run_one(_too_many) is None
        return Result("complete", 0.5)

    assert one.run_one(fourth) == Result("complete", 0.5)
    assert _states(two) == ["failed", "pruned", "complete", "complete"]
    assert [trial.user_attrs.get("reason") for trial in one.trials()] == ["no", "poor", None, None]
    assert two.study.best_trial.number == 2
    assert join_study(tmp_path).run_one(_too_many) is None
    assert join_study(tmp_path, wanted=4).run_one(lambda _: Result("complete", 1.0))


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(), Stopped(15), RuntimeError()], ids=repr)
def test_an_interrupted_trial_is_run_again(tmp_path: Path, stop: BaseException) -> None:
    study = join_study(tmp_path, wanted=1)
    values: list[float] = []

    def broken_off(trial: Trial) -> NoReturn:
        values.append(trial.params["x"])
        raise stop

    def again(trial: Trial) -> Result:
        values.append(trial.params["x"])
        assert trial.number == 1
        assert join_study(tmp_path, wanted=1).run_one(_too_many) is None
        assert _states(study) == ["killed", "running"]
        return Result("complete", 0.5)

    with pytest.raises(type(stop)):
        study.run_one(broken_off)
    assert study.run_one(again) == Result("complete", 0.5)
    assert values[0] == values[1]
    assert _states(study) == ["killed", "complete"]


def test_a_trial_without_heartbeats_is_run_again(tmp_path: Path) -> None:
    study, other = join_study(tmp_path, wanted=1), join_study(tmp_path, wanted=1)
    values: list[float] = []

    def silent(trial: Trial) -> Result:
        values.append(trial.params["x"])
        assert other.run_one(_too_many) is None
        other.storage.grace_period = -1  # every heartbeat is too old
        assert other.run_one(again) == Result("complete", 0.25)
        return Result("complete", 0.5)

    def again(trial: Trial) -> Result:
        values.append(trial.params["x"])
        return Result("complete", 0.25)

    # The process was alive after all: its late result does not count.
    late = study.run_one(silent)
    assert late is not None and late.state == "killed" and "no heartbeat for too long" in str(late.reason)
    assert values[0] == values[1]
    assert _states(study) == ["killed", "complete"]
    assert study.trials()[1].values == [0.25]


@pytest.mark.parametrize("waiting", [False, True], ids=["new", "run again"])
def test_a_process_that_dies_while_it_claims_a_trial_loses_nothing(tmp_path: Path, waiting: bool) -> None:
    study = join_study(tmp_path, wanted=1)

    def interrupted(_: Trial) -> NoReturn:
        raise KeyboardInterrupt

    if waiting:
        with pytest.raises(KeyboardInterrupt):
            study.run_one(interrupted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dead = study.study.ask(dict(study.distributions))
    values: list[float] = []

    def job(trial: Trial) -> Result:
        values.append(trial.params["x"])
        assert _states(study) == [*["killed"] * (dead.number + 1), "running"]
        return Result("complete", 0.5)

    assert study.run_one(job) == Result("complete", 0.5)
    assert values == [dead.params["x"]]


@pytest.mark.parametrize("value", [[1], 5, {"a": 5}])
def test_options_of_a_study_that_are_not_texts_are_rejected(value: object, tmp_path: Path) -> None:
    study = join_study(tmp_path)
    study.study.set_user_attr("options", value)
    with pytest.raises(LabError) as error:
        study.check_options({"b": "b=1"})
    assert str(error.value).startswith(
        f"sweep.storage=sqlite:///{tmp_path}/study.db: the study study is damaged"
    )
    assert str(error.value).endswith("start another with sweep.study=NAME")


def _use(study: SharedStudy) -> None:
    study.check_options({"b": "b=1"})
    study.trials()


@pytest.mark.parametrize("table", ["study_user_attributes", "trial_user_attributes"])
def test_a_study_with_broken_json_is_rejected_in_one_line(table: str, tmp_path: Path) -> None:
    study = join_study(tmp_path)
    study.check_options({"b": "b=1"})
    study.run_one(lambda _: Result("failed", reason="no"))
    with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as database, database:
        database.execute(f"update {table} set value_json='{{bad\n\x1b[0m'")
    with pytest.raises(
        LabError, match=r"^sweep\.storage=sqlite:///.*: the study study is damaged \(Expect"
    ) as error:
        _use(join_study(tmp_path))
    assert str(error.value).isprintable()


WORKER = """
import sys, time
from pathlib import Path
import optuna
from optuna.distributions import FloatDistribution
from attention_lab.search.report import table_row  # noqa: E402
from attention_lab.search.space import Space  # noqa: E402
from attention_lab.search.study import REASON, Result, SharedStudy  # noqa: E402
from attention_lab.search.storage import storage_url  # noqa: E402

folder = Path(sys.argv[1])
study = SharedStudy(
    name="study", url=storage_url(None, folder), folder=folder, wanted=6, heartbeat=1,
    distributions={"x": FloatDistribution(0.0, 1.0)}, sampler=optuna.samplers.RandomSampler(),
)

def job(trial):
    print(trial.number, flush=True)
    time.sleep(float(sys.argv[2]))
    return Result("complete", trial.params["x"])

while study.run_one(job) or study.trials(optuna.trial.TrialState.RUNNING):
    time.sleep(0.1)
"""
"""A process that runs trials of a study until none are left."""


@pytest.mark.slow
def test_one_of_two_processes_is_killed(tmp_path: Path) -> None:
    @contextmanager
    def start(seconds: float) -> Iterator[subprocess.Popen[str]]:
        """Start a process whose trials take so many seconds."""
        command = [sys.executable, "-c", WORKER, str(tmp_path), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    with start(60.0) as one:
        assert one.stdout is not None and one.stdout.readline() == "0\n"  # it is running its first trial
        with start(0.3) as two:
            assert two.stdout is not None and two.stdout.readline() == "1\n"
            one.kill()
            assert two.wait(timeout=120) == 0
    trials = optuna.load_study(study_name="study", storage=storage_url(None, tmp_path)).trials
    assert sorted(map(state_name, trials)) == [*["complete"] * 6, "killed"]
    assert state_name(trials[0]) == "killed"
    values = Counter(trial.params["x"] for trial in trials)
    assert len(values) == 6 and values[trials[0].params["x"]] == 2  # the killed one was run again, no other


def test_a_study_is_continued_only_with_its_own_options(tmp_path: Path) -> None:
    study = join_study(tmp_path)
    study.check_options({"a": "a=1", "b": "b=2"})
    study.check_options({"a": "a=1", "b": "b=2"})
    with pytest.raises(LabError, match=r"started with b=2, not with b=3: .*sweep\.study=NAME"):
        study.check_options({"a": "a=1", "b": "b=3"})
    with pytest.raises(LabError, match="started without c, not with c=1:"):
        study.check_options({"a": "a=1", "b": "b=2", "c": "c=1"})
    with pytest.raises(LabError, match="started with b=2, not without b:"):
        study.check_options({"a": "a=1"})
