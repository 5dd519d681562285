"""Trials that are marked as running although no process runs them."""

from datetime import datetime
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from optuna.storages._rdb.models import TrialHeartbeatModel  # noqa: E402
from optuna.trial import Trial, TrialState, create_trial  # noqa: E402
from studies import join_study  # noqa: E402

from attention_lab.search import silent_trials  # noqa: E402
from attention_lab.search.study import Result, SharedStudy, state_name  # noqa: E402


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which stands still unless a test changes it."""
    times = [1000.0]
    monkeypatch.setattr(silent_trials.time, "monotonic", lambda: times[0])
    return times


def _beat(study: SharedStudy, time: datetime) -> None:
    """Record a heartbeat of the first trial at the given time."""
    with study.storage.scoped_session() as session, session.begin():
        session.merge(TrialHeartbeatModel(trial_heartbeat_id=1, trial_id=1, heartbeat=time))


def _done(trial: Trial) -> Result:
    return Result("complete", trial.params["x"])


@pytest.mark.parametrize("heartbeat", [None, datetime(9999, 1, 1)], ids=["no heartbeat", "in the future"])
def test_a_claimed_trial_without_news_is_run_again(
    heartbeat: datetime | None, tmp_path: Path, clock: list[float]
) -> None:
    """Optuna waits for it without end."""
    study = join_study(tmp_path, wanted=1)
    study.study.add_trial(
        create_trial(
            state=TrialState.RUNNING,
            params={"x": 0.5},
            distributions=dict(study.distributions),
            user_attrs={"claimed": 0},
        )
    )
    if heartbeat is not None:
        _beat(study, heartbeat)
    assert study.run_one(_done) is None
    clock[0] += study.storage.grace_period
    assert study.run_one(_done) is None
    clock[0] += 1
    assert study.run_one(_done) == Result("complete", 0.5)
    assert [state_name(trial) for trial in study.trials()] == ["killed", "complete"]


def test_a_trial_with_new_heartbeats_is_left_alone(tmp_path: Path, clock: list[float]) -> None:
    """Even if they are in the future: another machine may have another clock."""
    study, other = join_study(tmp_path, wanted=1), join_study(tmp_path, wanted=1)

    def job(trial: Trial) -> Result:
        for year in range(9000, 9005):
            _beat(other, datetime(year, 1, 1))
            clock[0] += other.storage.grace_period
            assert other.run_one(_done) is None
        return Result("complete", 0.25)

    assert study.run_one(job) == Result("complete", 0.25)
    assert [state_name(trial) for trial in study.trials()] == ["complete"]
