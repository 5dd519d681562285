"""A study that does not fit in memory is rejected before it is read, on any database."""

from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from optuna.trial import TrialState, create_trial  # noqa: E402
from studies import join_study  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.files import databases  # noqa: E402
from attention_lab.search.study_size import check_study_size  # noqa: E402


@pytest.mark.parametrize("of_trial", [False, True])
def test_long_values_count(of_trial: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = join_study(tmp_path).storage
    attributes = {"long": ["x" * 50_000]}
    study = optuna.create_study(study_name="theirs", storage=storage)
    if of_trial:
        study.add_trial(create_trial(value=0.0, user_attrs=attributes))
    else:
        study.set_user_attr(*attributes.popitem())
    monkeypatch.setattr(databases, "usable_memory", lambda: 4_000_000)
    check_study_size(storage, "study", "sweep.storage=a")
    check_study_size(storage, "missing", "sweep.storage=a")
    with pytest.raises(LabError, match="more memory than this machine has: use another study"):
        check_study_size(storage, "theirs", "sweep.storage=a")


def test_a_value_is_not_too_long(tmp_path: Path) -> None:
    joined = join_study(tmp_path)
    joined.study.set_user_attr("long", "x" * 1_048_575)  # and two quotes
    with pytest.raises(LabError, match="has 1,048,577 characters, more than 1,048,576"):
        check_study_size(joined.storage, "study", "sweep.storage=a")


def test_rows_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = join_study(tmp_path)
    for _ in range(3):
        joined.study.add_trial(create_trial(value=0.0))
    monkeypatch.setattr(databases, "MOST_ROWS", 5)
    with pytest.raises(LabError, match=r"sweep.storage=a: it has more than 5 rows: use another study"):
        check_study_size(joined.storage, "study", "sweep.storage=a")


@pytest.mark.parametrize("state", [TrialState.WAITING, TrialState.RUNNING])
def test_unfinished_trials_count(state: TrialState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna reads them six times for each new trial: with 100,000, in a file of 4 MB, it took minutes."""
    joined = join_study(tmp_path)
    for _ in range(3):
        joined.study.add_trial(create_trial(state=state))
        joined.study.add_trial(create_trial(value=0.0))
    monkeypatch.setattr("attention_lab.search.study_size.MOST_UNFINISHED", 3)
    check_study_size(joined.storage, "study", "sweep.storage=a")
    joined.study.add_trial(create_trial(state=state))
    with pytest.raises(
        LabError, match=r"^sweep.storage=a: 4 of its trials are queued or running, more than 3"
    ):
        check_study_size(joined.storage, "study", "sweep.storage=a")


def test_a_study_is_checked_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = join_study(tmp_path)
    joined.study.set_user_attr("long", ["x" * 50_000])
    monkeypatch.setattr("attention_lab.search.storage.check_study", lambda *_: None)  # as if on a server
    monkeypatch.setattr(databases, "usable_memory", lambda: 4_000_000)
    with pytest.raises(LabError, match=r"study.db: it needs more memory than"):
        join_study(tmp_path)
