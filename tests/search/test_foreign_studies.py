"""A study from others has no values outside the search space, neither for a job nor as the best trial."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf

optuna = pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution  # noqa: E402
from optuna.trial import Trial, TrialState, create_trial  # noqa: E402
from studies import join_study  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.files.run_files import ERROR, METRICS, PRUNED  # noqa: E402
from attention_lab.search import study as shared_study  # noqa: E402
from attention_lab.search.jobs import SearchJobs  # noqa: E402
from attention_lab.search.study import Result  # noqa: E402
from attention_lab.search.trial_checks import check_results  # noqa: E402


def _run(_: Trial) -> Result:
    pytest.fail("the trial was run")


def _results(tmp_path: Path) -> list[optuna.trial.FrozenTrial]:
    study = join_study(tmp_path, wanted=1)
    study.check_options({"a": "b"})
    return study.trials()


@pytest.mark.parametrize("name", ["a?b", "a%2F..%2F..%2Fb", "a#b"])
def test_a_study_is_in_its_folder_whatever_the_name_of_the_folder(name: str, tmp_path: Path) -> None:
    """In a URL, the first name would end at the question mark, and the second lead out."""
    (tmp_path / "studies" / "a").mkdir(parents=True)
    folder = tmp_path / "studies" / name
    join_study(folder, wanted=1)
    assert {path.name for path in folder.iterdir()} >= {"study.db"}
    assert {path.name for path in (tmp_path / "studies").iterdir()} == {"a", name}
    assert {path.name for path in tmp_path.iterdir()} == {"studies"}


@pytest.mark.parametrize("value", [1e300, "evil", pytest.param(10**400, id="enormous")])
def test_queued_values_outside_the_search_space_are_rejected(value: object, tmp_path: Path) -> None:
    study = join_study(tmp_path, wanted=1)
    study.study.enqueue_trial({"x": value})
    with pytest.raises(LabError, match=r"sweep.storage=.* is damaged \(.*(search space|evil|too large)"):
        study.run_one(_run)
    assert not study.trials(TrialState.RUNNING)


@pytest.mark.parametrize("value", [1e300, "{_target_: os.system, command: id}", "${oc.env:HOME}"])
def test_results_of_values_outside_the_search_space_are_rejected(value: object, tmp_path: Path) -> None:
    """The best trial's values are written to a file that the next command builds objects from."""
    study = join_study(tmp_path, wanted=1)
    theirs = CategoricalDistribution([value])
    study.study.add_trial(create_trial(params={"x": value}, distributions={"x": theirs}, value=0.0))
    with pytest.raises(LabError, match=r"is damaged \(.*(search space|_target_|oc\.env)"):
        study.trials()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_result_that_is_not_finite_is_rejected(value: float) -> None:
    """It would be the best of all. PostgreSQL stores NaN, too."""
    trial = create_trial(value=0.0)
    trial.values = [value]
    with pytest.raises(ValueError, match="trial -1 has no result"):
        check_results([trial], {})


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE study_user_attributes SET value_json = '" + "[" * 100_000 + "'", "recursion|Stack overflow"),
        ("DELETE FROM trial_values", "trial 0 has no result"),
        ("UPDATE trial_values SET value = 'evil'", "trial 0 has no result|evil"),
        (
            "INSERT INTO trial_values SELECT 9, trial_id, 1, 0.5, 'FINITE' FROM trials",
            "trial 0 has no result",
        ),
        ("DELETE FROM trial_params", "x"),
        ("UPDATE trials SET number = 7", "its trials are not numbered from 0"),
        ("DELETE FROM study_directions", "it has a different direction"),
        ("UPDATE study_directions SET direction = 'MAXIMIZE'", "it has a different direction"),
        ("UPDATE study_directions SET direction = 'EVIL'", "'EVIL' is not among"),
        (
            "INSERT INTO study_directions SELECT 9, 'MINIMIZE', study_id, 1 FROM studies",
            "a different direction",
        ),
        (
            'UPDATE trial_params SET distribution_json = \'{"type":"float","low":0,"high":1,"step":1e-320}\'',
            "Division",
        ),
        ("UPDATE trial_values SET value_type = 'INF_POS'", "AssertionError"),
    ],
)
def test_a_damaged_study_is_named(change: str, said: str, tmp_path: Path) -> None:
    study = join_study(tmp_path, wanted=1)
    study.check_options({"a": "b"})
    study.study.add_trial(create_trial(params={"x": 0.5}, distributions=study.distributions, value=0.0))
    assert len(study.trials()) == 1
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(change)
        database.commit()
    with pytest.raises(LabError, match=rf"is damaged \(.*({said}).*\): start another with sweep.study=NAME"):
        _results(tmp_path)


@pytest.mark.parametrize(
    "theirs",
    [
        '{"name": "CategoricalDistribution", "attributes": {"choices": [{"a": 1}]}}',
        '{"name": "LogUniformDistribution", "attributes": {"low": 1, "high": 2}}',
        '{"name": "FloatDistribution", "attributes": {"low": 0, "high": 1, "step": 0.3, "log": false}}',
    ],
)
def test_a_distribution_of_another_study_is_not_warned_of(theirs: str, tmp_path: Path) -> None:
    """Optuna's warning runs over several lines and repeats every choice, which can be a megabyte of text."""
    study = join_study(tmp_path, wanted=1)
    failed = create_trial(params={"x": 0.5}, distributions=study.distributions, state=TrialState.FAIL)
    study.study.add_trial(failed)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("UPDATE trial_params SET param_value = 0, distribution_json = ?", [theirs])
        database.commit()
    (found,) = _results(tmp_path)
    assert found.state == TrialState.FAIL


def test_a_damaged_list_of_retries_is_named(tmp_path: Path) -> None:
    """Optuna adds a trial to this list when it queues a copy of it, here because the trial's process died."""
    study = join_study(tmp_path, wanted=1)
    study.study.add_trial(create_trial(state=TrialState.RUNNING, system_attrs={"retry_history": "evil"}))
    with pytest.raises(LabError, match=r"is damaged \('str' object has no attribute 'append'\)"):
        study.run_one(_run)


def test_a_study_with_more_running_trials_than_processes_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would be run again, which takes some hundredths of a second on a server."""
    monkeypatch.setattr(shared_study, "MOST_RUNNING", 2)
    study = join_study(tmp_path, wanted=9)
    for _ in range(2):
        study.study.add_trial(create_trial(state=TrialState.RUNNING))
    study.study.add_trial(create_trial(state=TrialState.RUNNING, user_attrs={"claimed": 2}))
    with pytest.raises(LabError, match=r"is damaged \(3 of its trials are running\): start another"):
        study.run_one(_run)
    assert len(study.trials(TrialState.RUNNING)) == 3


def test_a_trial_starts_whatever_is_in_the_place_of_earlier_results(tmp_path: Path) -> None:
    for name in (ERROR, METRICS, PRUNED):
        (tmp_path / name).mkdir()
    hydra = {"mode": RunMode.MULTIRUN, "job": {"num": 0}, "runtime": {"output_dir": str(tmp_path)}}
    SearchJobs().on_job_start(OmegaConf.create({"hydra": hydra}), task_function=lambda config: None)
