"""A search whose sampler has a seed."""

from pathlib import Path

import pytest

pytest.importorskip("optuna")

from studies import join_study

from attention_lab.search.study import Result


def test_a_seed_repeats_a_study_but_not_its_trials_when_it_is_continued(tmp_path: Path) -> None:
    def tried(folder: Path, *wanted: int) -> list[float]:
        for number in wanted:
            study = join_study(folder, number, seed=1)
            while study.run_one(lambda trial: Result("complete", trial.params["x"])):
                pass
        return [trial.params["x"] for trial in study.trials()]

    unbroken = tried(tmp_path / "unbroken", 6)
    assert unbroken == tried(tmp_path / "again", 6)
    continued = tried(tmp_path / "continued", 3, 6)
    assert continued[:3] == unbroken[:3] and len({*continued}) == 6
