"""`debug=` presets, tags and notes."""

import json

import pytest

from attention_lab.data import Copy

TINY = [
    *("model=seq2seq", "data=reverse", "data.train_size=40", "data.validation_size=8", "data.test_size=8"),
    *("data.max_length=4", "data.batch_size=8", "model.embedding_size=8", "model.hidden_size=16"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    "debug", ["profiler", *(pytest.param(one, marks=pytest.mark.slow) for one in ("default", "fast_dev_run"))]
)
def test_a_preset_runs_to_the_end(debug: str, command) -> None:
    done = command(*TINY, f"debug={debug}")
    assert (done.status, done.err) == (0, "")
    metrics = json.loads((done.folder / "metrics.json").read_text())
    assert metrics["fit/steps"] == {"default": 5, "fast_dev_run": 1, "profiler": 5}[debug]
    assert not list(done.folder.glob("*tfevents*"))
    profile = done.folder / "fit-profile.txt"
    told = f"Profile      {done.folder.name}/{profile.name}\n" in done.out
    assert profile.exists() == told == (debug == "profiler")


@pytest.mark.slow
def test_one_batch_is_overfitted(command) -> None:
    done = command(*TINY, "debug=overfit", "trainer.max_epochs=100", "optimizer.lr=0.02")
    assert (done.status, done.err) == (0, "")
    metrics = json.loads((done.folder / "metrics.json").read_text())
    assert metrics["fit/steps"] == 100
    assert metrics["train/loss"] < 0.5 < 1 < metrics["validation/loss"]


def test_the_same_batch_comes_in_every_epoch() -> None:
    class Trainer:
        global_rank, world_size, overfit_batches = 0, 1, 1.0

    data = Copy(train_size=40, validation_size=8, test_size=8, batch_size=8)
    for overfit, same in ((1.0, True), (0.0, False)):
        data.trainer = Trainer()  # type: ignore[assignment]
        data.trainer.overfit_batches = overfit
        batches = data.train_dataloader()
        first = next(iter(batches)).source
        if hasattr(batches.sampler, "set_epoch"):
            batches.sampler.set_epoch(1)
        again = next(iter(batches)).source
        assert (first.shape == again.shape and bool((first == again).all())) == same


@pytest.mark.slow
def test_tags_and_notes_are_kept_and_filter_the_leaderboard(command, tmp_path) -> None:
    nw = ["model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none"]
    runs = tmp_path / "runs"
    assert command(*nw, "tags=[a,b]", 'notes="one line"', folder=runs / "1").status == 0
    assert command(*nw, "tags=[b]", "seed=2", folder=runs / "2").status == 0
    config = (runs / "1" / "config.yaml").read_text()
    assert "tags:\n- a\n- b\n" in config and "notes: one line\n" in config
    both = command("stage=leaderboard", f"run={runs}", "tags=[b]")
    one = command("stage=leaderboard", f"run={runs}", "tags=[b,a]")
    none = command("stage=leaderboard", f"run={runs}", "tags=[c]")
    assert (both.status, one.status, none.status) == (0, 0, 1)
    assert "2 runs" in both.out and "1 run" in one.out
    assert none.err == f"Error: tags=[c]: no run in run={runs} has all of these tags; its runs have a, b\n"


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tags=a", "tags=a: give a list, as in 'tags=[a]'"),
        ("tags=['a,b']", "tags: 'a,b' is not a tag"),
        (f"tags=[{'x' * 70}]", "is not a tag"),
        ("notes=[a]", "notes must be text"),
    ],
)
def test_an_invalid_tag_is_reported_in_one_line(given: str, said: str, command) -> None:
    done = command("model=nw", given)
    assert done.status == 1
    assert done.err.startswith("Error: ") and said in done.err and done.err.count("\n") == 1
