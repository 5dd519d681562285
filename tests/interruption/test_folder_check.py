"""The folder of a run or sweep that continues is checked before anything is written to it."""

from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import setup_globals
from launcher_variables import SLURM, TORCHRUN
from omegaconf import OmegaConf

from attention_lab.errors import LabError
from attention_lab.interruption.folder_check import FolderCheck
from attention_lab.interruption.ranks import OWNED_BY_SWEEP
from attention_lab.interruption.resume_option import expand_resume


@pytest.mark.parametrize(
    ("mode", "options", "rejected"),
    [
        ("run", {"resume": "auto"}, True),
        ("run", {"resume": None}, False),  # a new run: it replaces what is there
        ("multirun", {"resume": "auto"}, True),
        ("multirun", {"sweep": {"trials": 1}}, True),  # a search always continues
        ("multirun", {}, False),
    ],
)
def test_links_out_of_the_folder(
    mode: str, options: dict[str, Any], rejected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"run": {"dir": str(tmp_path / "run")}, "sweep": {"dir": str(tmp_path / "multirun")}}
    config = OmegaConf.create({**options, "hydra": {**places, "sweeper": {"_target_": "another"}}})
    check = getattr(FolderCheck(), f"on_{mode}_start")
    check(config)  # there is no such folder yet
    (tmp_path / mode / "job").mkdir(parents=True)
    (tmp_path / mode / "job" / "train.log").write_text("")
    (tmp_path / mode / "latest").symlink_to("job")
    check(config)
    (tmp_path / mode / "job" / "checkpoints").symlink_to(tmp_path)
    if rejected:
        with pytest.raises(SystemExit, match=r"^Error: .*job/checkpoints links out of the run's folder"):
            check(config)
    else:
        check(config)


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_a_folder_to_find_again_has_a_fixed_name(kind: str, tmp_path: Path) -> None:
    check = {"run": FolderCheck().on_run_start, "sweep": FolderCheck().on_multirun_start}[kind]
    setup_globals()
    config = OmegaConf.create({"hydra": {kind: {"dir": f"{tmp_path}/${{now:%Y}}"}}})
    check(config)
    config.resume = "auto"
    wanted = f"^Error: resume=auto needs the same folder every time: add hydra.{kind}.dir=logs/NAME to "
    with pytest.raises(SystemExit, match=wanted):
        check(config)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        *(
            ("run", name)
            for name in ("train.log", ".hydra", "attention/worst", "checkpoints/last.ckpt", "mlflow.db")
        ),
        *(("run", name) for name in ("tensorboard", "tensorboard/embeddings")),  # as in older runs
        *(("sweep", name) for name in ("multirun.yaml", "0", "0/.hydra", "1/train.log")),
    ],
)
@pytest.mark.parametrize("stage", ["fit", "test"])
def test_links_where_a_new_run_writes(
    command: Any, tmp_path: Path, kind: str, place: str, stage: str
) -> None:
    folder, outside = tmp_path / "given", tmp_path / "outside"
    outside.mkdir()
    link = folder / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    options = ["-m", "seed=1,2", "hydra.sweep.subdir=${hydra.job.num}"] if kind == "sweep" else []
    done = command(*options, "model=nw", f"stage={stage}", f"ckpt_path={tmp_path}/a.ckpt", folder=folder)
    assert (done.status, len(done.err.splitlines())) == (1, 1)
    assert f"{link} links out of the {'sweep' if place == '0' else 'run'}'s folder" in done.err
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", [".hydra", ".hydra/config.yaml", "checkpoints"])
@pytest.mark.parametrize("resume", [None, "auto"])
def test_a_link_to_itself_is_named(name: str, resume: str | None, tmp_path: Path) -> None:
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(link.name)
    config = {"stage": "test", "resume": resume, "hydra": {"run": {"dir": str(tmp_path)}}}
    with pytest.raises(SystemExit, match=f"^Error: {link} is a link to itself: remove it"):
        FolderCheck().on_run_start(OmegaConf.create(config))


@pytest.mark.parametrize("name", [".hydra", "attention", "checkpoints"])
@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_a_file_in_place_of_a_folder_is_named_before_the_run_starts(
    name: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("") if kind == "file" else path.symlink_to("nothing")
    config = {"stage": "fit", "resume": None, "hydra": {"run": {"dir": str(tmp_path)}}}
    with pytest.raises(SystemExit, match=f"^Error: {path} is not a folder: remove it"):
        FolderCheck().on_run_start(OmegaConf.create(config))


@pytest.mark.parametrize(
    "name", ["train.log", ".hydra/config.yaml", ".hydra/overrides.yaml", "multirun.yaml", "study.lock"]
)
@pytest.mark.parametrize("mode", ["run", "multirun"])
def test_a_folder_in_place_of_a_file_is_named_before_hydra_writes_to_it(
    name: str, mode: str, tmp_path: Path
) -> None:
    (tmp_path / name / "deeper").mkdir(parents=True)
    places = {"run": {"dir": str(tmp_path)}, "sweep": {"dir": str(tmp_path)}}
    config = OmegaConf.create({"stage": "fit", "resume": "auto", "hydra": places})
    with pytest.raises(SystemExit, match=f"^Error: {tmp_path / name} is not a file: remove it"):
        getattr(FolderCheck(), f"on_{mode}_start")(config)


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_a_file_in_place_of_the_folder_itself(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("") if kind == "file" else path.symlink_to("nothing")
    config = {"stage": "fit", "resume": None, "hydra": {"run": {"dir": str(path)}}}
    with pytest.raises(SystemExit, match=f"^Error: {path} is not a folder: remove it"):
        FolderCheck().on_run_start(OmegaConf.create(config))


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_a_file_in_place_of_the_folder_of_a_job_is_named_before_the_first_job(
    kind: str, command: Any, tmp_path: Path
) -> None:
    path = tmp_path / "sweep" / "1_seed-2"
    path.parent.mkdir()
    path.write_text("") if kind == "file" else path.symlink_to("nothing")
    done = command("-m", "model=nw", "seed=1,2", "resume=auto", folder=path.parent)
    assert (done.status, done.err) == (1, f"Error: {path} is not a folder: remove it\n")
    assert not done.out and list(path.parent.iterdir()) == [path]


def test_other_links_do_not_stop_a_new_run(tmp_path: Path) -> None:
    for name in ("data", "notes"):
        (tmp_path / name).symlink_to("/dev")
    config = {"stage": "fit", "resume": None, "hydra": {"run": {"dir": str(tmp_path)}}}
    FolderCheck().on_run_start(OmegaConf.create(config))


@pytest.mark.parametrize("options", [["seed=1"], ["-m", "seed=1,2"]])
def test_the_command_leaves_such_a_folder_alone(command: Any, tmp_path: Path, options: list[str]) -> None:
    folder, outside = tmp_path / "given", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    for name in ("train.log", "multirun.yaml"):
        (folder / name).symlink_to(outside / name)
    for name in (".hydra", "checkpoints"):
        (folder / name).symlink_to(outside)
    done = command(*options, "model=nw", "resume=auto", folder=folder)
    assert done.status == 1 and "links out of the run's folder" in done.err
    assert len(done.err.splitlines()) == 1 and not list(outside.iterdir())


def test_jobs_of_a_sweep_with_several_processes_are_left_to_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    config = OmegaConf.create({"stage": "fit", "resume": None, "hydra": {"run": {"dir": str(tmp_path)}}})
    with pytest.raises(SystemExit, match="has checkpoints of a run"):
        FolderCheck().on_run_start(config)
    monkeypatch.setenv(OWNED_BY_SWEEP, "1")
    FolderCheck().on_run_start(config)


@pytest.mark.parametrize("mode", ["run", "multirun"])
def test_a_folder_without_a_name_is_rejected(mode: str) -> None:
    option = f"hydra.{mode.replace('multirun', 'sweep')}.dir"
    config = OmegaConf.create({"stage": "fit", "hydra": {"run": {"dir": ""}, "sweep": {"dir": ""}}})
    with pytest.raises(
        SystemExit, match=rf"^Error: {option} is empty: give a folder, such as {option}=logs/mine"
    ):
        getattr(FolderCheck(), f"on_{mode}_start")(config)


def test_a_folder_whose_name_hydra_would_replace_is_rejected(tmp_path: Path) -> None:
    """Hydra would write to the folder that the variable names, whose links are not checked."""
    run = tmp_path / "${oc.env:HOME}"
    run.mkdir()
    (run / "config.yaml").touch()
    with pytest.raises(
        LabError, match=r"Hydra would replace the \${ in the folder's name: rename the folder$"
    ):
        expand_resume([f"resume={run}"], Path("conf"))


@pytest.mark.long
def test_a_new_run_does_not_replace_the_checkpoints_of_another(command: Any, tmp_path: Path) -> None:
    small = ("model=nw", "data.train_size=5", "trainer.max_epochs=1", "pictures=0")
    run = tmp_path / "run"
    assert command(*small, folder=run).status == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = command(*small, "seed=2", folder=run)
    assert (done.status, done.err) == (
        1, f"Error: {run} has checkpoints of a run: continue it with resume=auto, or choose another folder\n",
    )  # fmt: skip
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert command(*small, "resume=auto", folder=run).status == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"),
    [("0_seed-1", []), ("1_seed-2", []), ("1", ["hydra.sweep.subdir=${hydra.job.id}"])],
)
def test_a_new_sweep_does_not_replace_the_checkpoints_of_another(
    command: Any, tmp_path: Path, name: str, options: list[str]
) -> None:
    sweep = tmp_path / "sweep"
    checkpoints = sweep / name / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "last.ckpt").touch()
    done = command("-m", "model=nw", "seed=1,2", *options, folder=sweep)
    reason = f"{checkpoints.parent} has checkpoints of a run: continue the sweep with resume=auto"
    assert (done.status, done.err) == (
        1, f"Error: {reason}, or choose another folder\n",
    )  # fmt: skip
    assert not done.out and list(sweep.rglob("*")) == [sweep / name, checkpoints, checkpoints / "last.ckpt"]


@pytest.mark.parametrize(
    "variables",
    [{**TORCHRUN, "RANK": "0"}, {**SLURM, "SLURM_PROCID": "0"}],
)
def test_processes_started_by_torchrun_or_srun_need_one_folder(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup_globals()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    timed, named = f"{tmp_path}/new/run_${{now:%H}}", f"{tmp_path}/mine"
    config = OmegaConf.create({"stage": "fit", "hydra": {"run": {"dir": timed}}})
    reason = r"the 2 processes of this run need one folder: add hydra\.run\.dir=logs/NAME"
    with pytest.raises(SystemExit, match=reason):
        FolderCheck().on_run_start(config)
    assert not list(tmp_path.iterdir())
    config.hydra.run.dir = named
    FolderCheck().on_run_start(config)


@pytest.mark.slow
def test_a_sweep_with_other_jobs_may_share_the_folder(command: Any, tmp_path: Path) -> None:
    small = ("-m", "model=nw", "data.train_size=5", "trainer.max_epochs=1", "pictures=0")
    sweep = tmp_path / "sweep"
    assert command(*small, "seed=1,2", folder=sweep).status == 0
    assert command(*small, "seed=3", "data.noise=0.1,0.2", folder=sweep).status == 0
    assert command(*small, "seed=1,2,3", folder=sweep).status == 1
    assert command(*small, "seed=1,2,3", "resume=auto", folder=sweep).status == 0
    assert len(list(sweep.glob("*/checkpoints/last.ckpt"))) == 5
