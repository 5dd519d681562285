"""Tests of trained models on the leaderboard: the options of training are those of the tested run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from folders import RATE, make_run

from attention_lab.leaderboard.settings import group_runs, varied_options
from attention_lab.runs.run_folder import Job, read_job
from attention_lab.runs.tested_options import with_options_of_training

TRAINER = {"default_root_dir": "x", "max_epochs": 7, "precision": "32-true"}


def _trained(folder: Path, seed: int = 1, **trainer: Any) -> Path:
    options = {**TRAINER, "default_root_dir": str(folder), "max_epochs": 2, **trainer}
    return make_run(folder, {RATE: 0.1}, seed=seed, options={"trainer": options})


def _tested(folder: Path, checkpoints: Any, *typed: str, **options: Any) -> Job:
    overrides = ["stage=test", f"ckpt_path={checkpoints}", *typed]
    given = {"ckpt_path": checkpoints, "trainer": TRAINER, **options}
    return read_job(make_run(folder, {RATE: 0.2}, stage="test", options=given, overrides=overrides))


def test_a_test_has_the_options_of_training_of_the_run_that_it_tests(tmp_path: Path) -> None:
    run = _trained(tmp_path / "trained", precision="bf16-mixed")
    tested = _tested(tmp_path / "a", str(run), "trainer.max_epochs=7", task={"beam_size": 5})
    both = _tested(tmp_path / "b", [str(run), str(run / "checkpoints" / "last.ckpt")])
    for job in (tested, both):
        assert job.value("trainer.max_epochs") == 2 and job.value("trainer.precision") == "32-true"
    assert varied_options([read_job(run), tested]) == ["trainer.precision"]
    same = _tested(tmp_path / "c", str(_trained(tmp_path / "other")), task={"beam_size": 5})
    assert varied_options([read_job(tmp_path / "other"), same]) == ["task.beam_size"]


def test_options_of_training_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    job = _tested(tmp_path / "a", "moved/checkpoints/best.ckpt", "optimizer.lr=3", optimizer={"lr": 3})
    assert job.value("trainer.max_epochs") is None and job.value("optimizer.lr") is None
    other = _tested(tmp_path / "b", "moved/checkpoints/best.ckpt", "optimizer.lr=4", optimizer={"lr": 4})
    assert varied_options([job, other]) == []


def test_tests_of_several_seeds_are_one_setting(tmp_path: Path) -> None:
    runs = [_trained(tmp_path / f"trained{seed}", seed) for seed in (1, 2)]
    jobs = [_tested(tmp_path / f"test{n}", str(run)) for n, run in enumerate(runs)]
    (setting,) = group_runs(jobs, varied_options(jobs))
    assert setting.values(RATE) == {"1": 0.2, "2": 0.2}
    last = _tested(tmp_path / "last", str(runs[0] / "checkpoints" / "last.ckpt"))
    assert varied_options([*jobs, last]) == ["ckpt_path"]
    trained = [read_job(run) for run in runs]  # whose own tests are of the best checkpoint, too
    for others in (jobs, trained, [*trained, *jobs]):
        names = [setting.name for setting in group_runs([*others, last], ["ckpt_path"])]
        assert names == ["ckpt_path=best.ckpt", "ckpt_path=last.ckpt"]
    assert [setting.name for setting in group_runs(trained, ["ckpt_path"])] == ["ckpt_path=null"]


def test_a_test_on_all_examples_is_not_averaged_with_one_on_a_few(tmp_path: Path) -> None:
    run = _trained(tmp_path / "trained", limit_test_batches=2)
    jobs = [read_job(run), _tested(tmp_path / "test", str(run))]
    assert varied_options(jobs) == ["trainer.limit_test_batches"]


@pytest.mark.parametrize(
    ("typed", "options"),
    [
        ("allow=[mine]", {"allow": ["mine"]}),
        ("threads=2", {"threads": 2}),
        ("pictures=0", {"pictures": 0}),
        ("+tags=[a]", {"tags": ["a"]}),
        ("logger=none", {}),
        ("callbacks.progress_bar.refresh_rate=1", {"callbacks": {"progress_bar": {"refresh_rate": 1}}}),
        ("~callbacks.attention_maps", {"callbacks": {"attention_maps": {"every": 3}}}),
    ],
)
def test_options_that_do_not_change_training_make_no_setting(
    typed: str, options: Mapping[str, Any], tmp_path: Path
) -> None:
    plain = make_run(tmp_path / "a", {RATE: 0.1}, options={"callbacks": {}})
    other = make_run(
        tmp_path / "b", {RATE: 0.1}, options={"callbacks": {}, **options}, overrides=[typed, "seed=1"]
    )
    assert varied_options([read_job(plain), read_job(other)]) == []


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        ([f"logs/m/{n}/checkpoints/best.ckpt" for n in (1, 2)], "2 checkpoints in logs/m: 1, 2"),
        (["a/checkpoints/best.ckpt", "b/checkpoints/last.ckpt"], "2 checkpoints: a/checkpoints/best.ckpt, "),
        ([f"logs/m/{n}_{'x' * 20}/checkpoints/best.ckpt" for n in range(9)], "9 checkpoints in logs/m: #"),
        (["logs/a.ckpt"] * 2, "2 checkpoints in logs/a.ckpt: #"),
        ([1, None], "2 checkpoints: 1, None"),
        ([], "0 checkpoints: "),
    ],
)
def test_an_ensemble_has_a_short_name(paths: list[Any], name: str) -> None:
    found = with_options_of_training({"stage": "test", "ckpt_path": paths}, {})["ckpt_path"]
    assert found.startswith(name) and len(found) < 100
    other = with_options_of_training({"stage": "test", "ckpt_path": [*paths[:-1], "z/last.ckpt"]}, {})[
        "ckpt_path"
    ]
    assert other != found


def test_what_is_no_checkpoint_is_no_error(tmp_path: Path) -> None:
    for strange in ({"a": 1}, 5, [[1]], "\0", "/dev/zero", [{}]):
        job = _tested(tmp_path / str(len(list(tmp_path.iterdir()))), strange)
        assert job.value("trainer.max_epochs") is None
