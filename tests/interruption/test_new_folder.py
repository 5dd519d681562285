"""Commands that start at the same time get folders of their own, as do runs of one second in a shell loop."""

from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import setup_globals
from omegaconf import DictConfig, OmegaConf

from attention_lab.interruption.new_folder import claim_new_folder, is_named_by_time
from attention_lab.interruption.ranks import OWNED_BY_SWEEP

NW = ("model=nw", "data.train_size=20", "trainer.max_epochs=1", "pictures=0", "logger=none")


def _claimed(folder: str, kind: str = "run") -> tuple[DictConfig, Path]:
    """A configuration with this folder, after it has claimed one."""
    setup_globals()
    config = OmegaConf.create({"hydra": {kind: {"dir": folder}, "other": "${now:%Y}"}})
    claim_new_folder(config, kind)
    return config, Path(config.hydra[kind].dir)


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_name_that_is_taken_is_numbered(kind: str, tmp_path: Path) -> None:
    raw = f"{tmp_path}/logs/digits_${{now:%Y}}"
    folders = [_claimed(raw, kind)[1] for _ in range(3)]
    assert all(folder.is_dir() for folder in folders)
    first = folders[0].name
    assert [folder.name for folder in folders] == [first, f"{first}_2", f"{first}_3"]


def test_the_number_follows_the_last_time_in_the_name(tmp_path: Path) -> None:
    raw = f"{tmp_path}/${{now:%Y}}/${{now:%Y-%m}}/run"
    first, second = (_claimed(raw)[1].relative_to(tmp_path) for _ in range(2))
    year, month, _ = first.parts
    assert second.parts == (year, f"{month}_2", "run")


def test_jobs_of_a_sweep_use_the_folder_of_the_sweep(tmp_path: Path) -> None:
    """Hydra copies the values of resolvers to the configurations of a sweep's jobs."""
    raw = f"{tmp_path}/sweep_${{now:%Y}}"
    _claimed(raw, "sweep")
    config, folder = _claimed(raw, "sweep")
    job = OmegaConf.create({"hydra": {"sweep": {"dir": raw}}})
    OmegaConf.copy_cache(config, job)
    assert Path(job.hydra.sweep.dir) == folder


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        ({"dir": "logs/a"}, False),
        ({"dir": "logs/${now:%Y}"}, True),
        ({"dir": "logs/${now:${format}}"}, True),
        ({"dir": "logs", "subdir": "${now:%Y}"}, True),
    ],
)
def test_what_is_named_by_the_time(folder: dict[str, str], named: bool) -> None:
    assert is_named_by_time(OmegaConf.create({"hydra": {"sweep": folder}}), "sweep") is named


def test_a_folder_without_a_time_is_left_to_hydra(tmp_path: Path) -> None:
    assert not _claimed(f"{tmp_path}/mine")[1].exists()


@pytest.mark.parametrize("variable", [("RANK", "1"), (OWNED_BY_SWEEP, "1")])
def test_other_processes_of_a_run_claim_nothing(
    variable: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*variable)
    assert not _claimed(f"{tmp_path}/run_${{now:%Y}}")[1].exists()


def test_a_folder_that_cannot_be_created_is_left_to_hydra(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    _claimed(f"{tmp_path}/file/run_${{now:%Y}}")


def test_two_runs_of_one_time_keep_their_results(command: Any, tmp_path: Path) -> None:
    done = [command(*NW, f"seed={seed}", folder=tmp_path / "run_${now:%Y}") for seed in (1, 2)]
    assert [run.status for run in done] == [0, 0], done[1].err
    folders = sorted(tmp_path.glob("run_*"))
    assert len(folders) == 2
    seeds = [OmegaConf.load(folder / "config.yaml").seed for folder in folders]
    assert seeds == [1, 2]


def test_a_numbered_folder_of_a_command_that_could_not_start_is_removed(command: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run_${now:%Y}"
    assert command(*NW, folder=folder).status == 0
    assert command("stage=tset", folder=folder).status == 1
    assert len(list(tmp_path.glob("run_*"))) == 1


def test_nothing_is_left_of_a_sweep_with_an_unknown_column(command: Any, tmp_path: Path) -> None:
    columns = ("hydra.callbacks.comparison.x=seed", "hydra.callbacks.comparison.y=null")
    assert command("-m", *NW, "seed=1,2", *columns, folder=tmp_path / "new" / "sweep_${now:%Y}").status == 1
    assert list(tmp_path.iterdir()) == []
