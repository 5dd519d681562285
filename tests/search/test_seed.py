"""A search whose sampler has a seed."""

from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from optuna.distributions import FloatDistribution  # noqa: E402

from attention_lab.search.storage import storage_url  # noqa: E402
from attention_lab.search.study import Result, SharedStudy  # noqa: E402


def test_a_seed_repeats_a_study_but_not_its_trials_when_it_is_continued(tmp_path: Path) -> None:
    def tried(folder: Path, *wanted: int) -> list[float]:
        for number in wanted:
            study = SharedStudy(
                name="study",
                url=storage_url(None, folder),
                folder=folder,
                wanted=number,
                heartbeat=60,
                distributions={"x": FloatDistribution(0.0, 1.0)},
                sampler=optuna.samplers.RandomSampler(1),
                pruner=optuna.pruners.NopPruner(),
            )
            while study.run_one(lambda trial: Result("complete", trial.params["x"])):
                pass
        return [trial.params["x"] for trial in study.trials()]

    unbroken = tried(tmp_path / "unbroken", 6)
    assert unbroken == tried(tmp_path / "again", 6)
    continued = tried(tmp_path / "continued", 3, 6)
    assert continued[:3] == unbroken[:3] and len({*continued}) == 6
