"""The experiments of conf/experiment that sweep by themselves, at tiny sizes."""

from pathlib import Path

import pytest

import attention_lab
from attention_lab.runs.run_folder import find_runs

REPOSITORY = Path(__file__).parents[2]
NW = ["-m", "model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none"]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["crossover_digits", "efficiency"])
def test_an_experiment_sweeps_by_itself_and_takes_other_values(
    experiment: str, command, tmp_path: Path
) -> None:
    small = {
        "crossover_digits": ["model=multihead", "data.train_size=20,40", "seed=1"],
        "efficiency": ["mechanism=linear,band,rnn", "data.length=24", "data.test_size=2"],
    }[experiment]
    small += {
        "crossover_digits": ["trainer.val_check_interval=2"],
        "efficiency": ["data.train_size=2", "data.short_epochs=0", "trainer.check_val_every_n_epoch=1"],
    }[experiment]
    small += ["trainer.max_steps=2", f"hydra.sweep.dir={tmp_path}/sweep"]
    done = command(f"experiment={experiment}", *small)
    assert (done.status, done.err) == (0, "")
    jobs = find_runs([tmp_path / "sweep"])
    assert len(jobs) == (2 if experiment == "crossover_digits" else 3)
    assert all("test/accuracy" in job.metrics and job.metrics["fit/steps"] == 2 for job in jobs)
    if experiment == "efficiency":
        assert [(job.choices["scoring"], job.choices["window"]) for job in jobs] == [
            ("linear", "global"), ("scaled_dot", "band"), ("additive", "global")
        ]  # fmt: skip
        assert [job.choices["model"] for job in jobs] == ["multihead", "multihead", "rnn"]


@pytest.mark.slow
def test_encoders_of_the_crossover_have_one_size_and_each_data_a_plot(command, tmp_path: Path) -> None:
    small = ["seed=1", "data.train_size=10", "data.validation_size=4", "data.test_size=4"]
    small += ["trainer.max_steps=1", "trainer.val_check_interval=1", f"hydra.sweep.dir={tmp_path}/sweep"]
    done = command("experiment=crossover", *small)
    assert (done.status, done.err) == (0, "")
    jobs = find_runs([tmp_path / "sweep"])
    assert [job.choices["model"] for job in jobs] == ["multihead", "cnn", "rnn"] * 2
    assert all(job.metrics["parameters"] == pytest.approx(6440, rel=0.01) for job in jobs)
    assert all(job.config["data"]["seed"] == 1 for job in jobs)
    names = {path.name for path in (tmp_path / "sweep").glob("comparison*.png")}
    assert names == {"comparison_motifs.png", "comparison_far_pairs.png"}


@pytest.mark.slow
def test_scores_are_compared_in_models_of_one_size(command, tmp_path: Path) -> None:
    small = ["scoring=dot,additive", "seed=1", "data.train_size=64", "data.test_size=20"]
    small += ["trainer.max_steps=2", "model.parameters=40000", "model.hidden_size=32"]
    done = command("experiment=compare_scores", *small, f"hydra.sweep.dir={tmp_path}/sweep")
    assert (done.status, done.err) == (0, "")
    jobs = find_runs([tmp_path / "sweep"])
    assert [job.choices["scoring"] for job in jobs] == ["dot", "additive"]
    assert all(job.metrics["parameters"] == pytest.approx(40000, rel=0.005) for job in jobs)
    assert "best by token error rate (lowest): " in done.out
    trained = attention_lab.load(next((tmp_path / "sweep").glob("*/checkpoints/last.ckpt")))
    assert len(trained.predict(["a b"])) == 1
