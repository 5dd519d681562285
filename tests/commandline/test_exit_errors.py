"""What Hydra rejects, or cannot write, is reported in one line, too."""

import errno
import os
from pathlib import Path

import pytest
from hydra.core import utils
from hydra.errors import HydraException
from omegaconf import OmegaConf


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("hydra.mode=test", "merging override hydra.mode=test: Invalid value 'test', expected one of [RUN, "),
        ("--help hydra.mode=test", "merging override hydra.mode=test: Invalid value 'test', expected"),
        ("--cfg job notes='${'", "merging override notes='${': "),
        ("--cfg job --resolve seed=${nosuch}", "Interpolation key 'nosuch' not found"),
        ("--info config ~hydra.run.dir", "merging override ~hydra.run.dir: "),
        ("~task.beam_size=3", "Could not delete from config. The value of 'task.beam_size' is 1 and not 3."),
        ("hydra/sweeper=nosuch", "In 'hydra/config': Could not find 'hydra/sweeper/nosuch' Available"),
        ("-m model=multihead,nw task.n_best=2", "there is no option task.n_best with some of the choices of"),
        ("hydra.run.dri=x", "there is no option hydra.run.dri"),
        ("sweep=optuna hydra.sweeper.n_trials=3", "there is no option hydra.sweeper.n_trials; did you mean "),
        (
            "sweep=optuna sweep.sampler.seed=x",
            "sweep.sampler._target_=optuna.samplers.TPESampler: TypeError: C",
        ),
        (
            "sweep=optuna sweep.sampler._target_=builtins.dict",
            "sweep.sampler._target_=builtins.dict is not a sampler of Optuna",
        ),
        (
            "sweep=optuna sweep.pruner._target_=optuna.pruners.Median",
            "sweep.pruner._target_=optuna.pruners.Median: ModuleNotFoundError: No module",
        ),
        ("sweep=optuna hydra.sweep.dir=${oc.decode:null}", "hydra.sweep.dir: While dereferencing "),
        ("-m hydra.sweeper.max_batch_size=${run_name:}", "hydra.sweeper.max_batch_size: While deref"),
    ],
)
def test_an_error_of_hydra(arguments: str, message: str, command) -> None:
    done = command(*arguments.split())
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert line.startswith(f"Error: {message}")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("hydra.sweeper.n_trials=3", "sweep.trials"),
        ("hydra.sweeper.study_name=s", "sweep.study"),
        ("hydra/sweeper=optuna", "sweep=optuna"),
        ("hydra/sweeper/sampler=random", "sweep/sampler"),
    ],
)
def test_the_names_of_hydras_optuna_sweeper(given: str, meant: str, command) -> None:
    done = command(given)
    assert done.status == 1 and done.err.count("\n") == 1 and f"did you mean {meant}" in done.err


def test_a_complete_stack_trace_can_be_asked_for(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(HydraException, match="merging override"):
        command("hydra.mode=test")


def test_the_message_about_a_file_goes_on_after_a_line_feed_in_its_name(command) -> None:
    done = command("stage=test", "ckpt_path='no\nsuch.ckpt'")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("Error: ckpt_path=no such.ckpt: no such file")


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_a_file_in_place_of_the_folder_of_a_trial(kind: str, command, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "search" / "s" / "trial_0"
    path.parent.mkdir(parents=True)
    path.write_text("") if kind == "file" else path.symlink_to("nothing")
    done = command("sweep=optuna", "model=nw", "sweep.trials=1", "sweep.study=s")
    assert (done.status, done.err) == (
        1, "Error: logs/search/s/trial_0 should be a folder: remove the file there\n",
    )  # fmt: skip


@pytest.mark.parametrize("options", [[], ["-m", "seed=1,2"], ["sweep=optuna", "sweep.trials=1"]])
def test_a_full_disk(options: list[str], command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # without the file, as when it is written

    def begun(_: object, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / name).touch()
        full()

    monkeypatch.setattr(utils, "_save_config", begun)
    done = command("model=nw", *options)
    assert options or not done.folder.exists(), "a run that has not started leaves no folder"
    message = "Error: cannot write the run's folder: No space left on device; free some space and repeat "
    assert done.status == 1 and len(done.err.splitlines()) == 1 and done.err.startswith(message)
    monkeypatch.setattr(OmegaConf, "save", full)  # multirun.yaml of a sweep
    assert command("model=nw", *options).err.startswith(message)
