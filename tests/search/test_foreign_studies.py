"""A study from others cannot give a job values outside the search space."""

from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from optuna.distributions import FloatDistribution  # noqa: E402
from optuna.trial import Trial, TrialState  # noqa: E402

from attention_lab.errors import LabError  # noqa: E402
from attention_lab.search.study import Result, SharedStudy, storage_url  # noqa: E402


def _run(_: Trial) -> Result:
    pytest.fail("the trial was run")


@pytest.mark.parametrize("value", [1e300, "evil"])
def test_queued_values_outside_the_search_space_are_rejected(value: object, tmp_path: Path) -> None:
    study = SharedStudy(
        name="study",
        url=storage_url(None, tmp_path),
        folder=tmp_path,
        wanted=1,
        heartbeat=60,
        distributions={"x": FloatDistribution(0.0, 1.0)},
        sampler=optuna.samplers.RandomSampler(),
        pruner=optuna.pruners.NopPruner(),
    )
    study.study.enqueue_trial({"x": value})
    with pytest.raises(LabError, match=r"sweep.storage=.* is damaged \(.*(search space|evil)"):
        study.run_one(_run)
    assert not study.trials(TrialState.RUNNING)
