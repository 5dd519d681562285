"""Names of run folders, and of the jobs in a sweep."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from folders import make_run
from hydra.core.override_parser.overrides_parser import OverridesParser
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from attention_lab.runs.run_names import folder_name, job_name, resumed_job_name

NOW = {"model": "seq2seq", "data": "cmudict", "scoring": "additive"}
THEN = {"model": "transformer", "data": "reverse", "scoring": "dot"}


def _checkpoint(folder: Path, choices: dict[str, str]) -> str:
    return str(make_run(folder, choices=choices) / "checkpoints" / "best.ckpt")


def test_a_training_run_is_named_after_its_choices() -> None:
    assert folder_name("fit", NOW, (), "elsewhere/best.ckpt") == "seq2seq/cmudict_additive"


@pytest.mark.parametrize("stage", ["test", "predict"])
def test_the_test_of_a_checkpoint_is_named_after_its_run(stage: str, tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path / "run", THEN)
    assert folder_name(stage, NOW, (), checkpoint) == f"transformer/{stage}_reverse_dot"
    assert (
        folder_name(stage, {**NOW, "data": "copy"}, {"data"}, checkpoint) == f"transformer/{stage}_copy_dot"
    )


def test_the_name_is_only_the_stage_if_the_run_is_unknown(tmp_path: Path) -> None:
    for checkpoint in (None, "nowhere/best.ckpt", str(tmp_path / "moved.ckpt"), ["a.ckpt", "b.ckpt"]):
        assert folder_name("test", NOW, (), checkpoint) == "test"
    hostile = _checkpoint(tmp_path / "run", {**THEN, "scoring": "../../elsewhere"})
    assert folder_name("predict", NOW, (), hostile) == "predict"
    for name in ("字" * 60, "a" * 61):  # with three bytes each, the folder could not be made
        long = _checkpoint(tmp_path / name[:9], {**THEN, "data": name, "scoring": name})
        assert folder_name("test", NOW, (), long) == "test"
    for stage in ("report", "leaderboard", "theorem"):
        assert folder_name(stage, NOW, (), _checkpoint(tmp_path / stage, THEN)) == stage


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("scoring=additive,seed=1", "7_scoring-additive_seed-1"),
        ("data.size=[10,20],optimizer.lr=1e-3", "7_data.size-10_20-_optimizer.lr-1e-3"),
        ("data.file=my data/é.tsv,+model.x={a:1,b:=2}", "7_data.file-my-data-.tsv_-model.x-a-1_b-2"),
        ("run='a b; rm -rf $HOME'", "7_run-a-b-rm-rf-HOME"),
        ("", "7_default"),
        ("data.file=" + "long" * 100, "7_data.file-" + "long" * 27 + "lo"),
    ],
)
def test_the_folder_of_a_job_needs_no_quotes(options: str, name: str) -> None:
    assert job_name(7, options) == name
    assert shlex.quote(name) == name
    (override,) = OverridesParser.create().parse_overrides([f"ckpt_path={name}"])
    assert override.value() == name


@pytest.mark.parametrize(
    ("number", "options", "name"),
    [
        (2, ["resume=auto", "seed=2", "data.train_size=20"], "1_seed-2"),  # another seed was added before it
        (1, ["data.train_size=20", "seed=2"], "1_seed-2"),
        (0, ["data.train_size=20", "seed=1"], "0_default"),  # it was the only seed
        (3, ["data.train_size=30", "seed=2"], "3_seed-2"),
        (3, ["data.train_size=20", "seed=3"], "2_seed-3"),  # not finished: it is resumed
        (7, ["data.train_size=20", "seed=4"], "5_seed-4"),  # started twice, and finished once
        (4, ["data.train_size=20", "seed=2"], "4_seed-2"),  # already has a folder
    ],
)
def test_a_job_keeps_its_folder_in_a_longer_sweep(
    number: int, options: list[str], name: str, tmp_path: Path
) -> None:
    fixed = "data.train_size=20"
    make_run(tmp_path / "0_default", {"test/loss": 1}, overrides=[fixed, "seed=1"])
    make_run(tmp_path / "1_seed-2", {"test/loss": 1}, overrides=[fixed, "seed=2"])
    make_run(tmp_path / "2_seed-3", overrides=[fixed, "seed=3"])
    make_run(tmp_path / "5_seed-4", {"test/loss": 1}, overrides=[fixed, "seed=4"])
    make_run(tmp_path / "6_seed-4", overrides=[fixed, "seed=4"])
    (tmp_path / "4_seed-2").mkdir()
    own = job_name(number, next(one for one in options if one.startswith("seed")))
    assert resumed_job_name(tmp_path, own, options) == name


@pytest.mark.slow
def test_the_jobs_of_a_sweep_are_named_after_the_options_that_differ(command: Any) -> None:
    options = ["-m", "model=nw", "data.train_size=20", "trainer.max_epochs=1", "pictures=0", "seed=1,2"]
    done = command(*options)
    assert done.status == 0, done.err
    assert sorted(path.name for path in done.folder.iterdir() if path.is_dir()) == ["0_seed-1", "1_seed-2"]
    again = command(*options, "resume=auto", folder=done.folder)
    assert (again.status, again.err) == (0, "")
    assert sorted(path.name for path in done.folder.iterdir() if path.is_dir()) == ["0_seed-1", "1_seed-2"]
    events = EventAccumulator(str(done.folder / "0_seed-1")).Reload()
    content = events.summary_metadata["_hparams_/experiment"].plugin_data.content
    columns = {one.name: one.differs for one in HParamsPluginData.FromString(content).experiment.hparam_infos}
    assert {name for name, differs in columns.items() if differs} == {
        *("seed", "data.train_size", "trainer.max_epochs", "model", "scoring")
    }
    assert "trainer.max_epochs" in columns and "data.kind" not in columns


@pytest.mark.long
def test_a_sweep_with_more_seeds_trains_only_these(command: Any, tmp_path: Path) -> None:
    """The jobs have other numbers than before."""
    options = ["-m", "model=nw", "data.train_size=10", "trainer.max_epochs=3", "pictures=0"]
    options, sweep = [*options, "scoring=gaussian,laplacian"], tmp_path / "sweep"
    assert command(*options, "seed=1", folder=sweep).status == 0
    before = {path: path.stat().st_mtime_ns for path in sweep.glob("*/metrics.json")}
    again = command(*options, "seed=1,2", "resume=auto", folder=sweep)
    assert (again.status, again.err) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {path.name for path in sweep.iterdir() if path.is_dir()} == {
        *("0_scoring-gaussian", "1_scoring-laplacian"),
        *("1_scoring-gaussian_seed-2", "3_scoring-laplacian_seed-2"),
    }
    jobs = [line for line in again.out.splitlines() if "/4  scoring=" in line]
    assert [line.endswith("finished before") for line in jobs] == [True, False, True, False]
