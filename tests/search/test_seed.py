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


def test_processes_that_start_together_draw_different_values(tmp_path: Path) -> None:
    studies = [join_study(tmp_path, 4, seed=1) for _ in range(2)]  # both find it empty
    for study in studies * 2:
        study.run_one(lambda trial: Result("complete", 0.0))
    values = [trial.params["x"] for trial in studies[0].trials()]
    assert len(set(values)) == 4
