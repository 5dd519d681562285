"""Check the folder of a run or sweep before Hydra writes to it."""

import copy
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from omegaconf.errors import InterpolationResolutionError

from attention_lab.commandline.exit_errors import errors_in_one_line
from attention_lab.commandline.overrides import needs_listed_values, paths_given, sweep_overrides
from attention_lab.errors import LabError
from attention_lab.files.paths import is_inside
from attention_lab.files.regular_files import exists, matches_in
from attention_lab.interruption.early_signals import say_before_exit
from attention_lab.interruption.exit_messages import print_between_jobs
from attention_lab.interruption.new_folder import claim_new_folder, is_named_by_time
from attention_lab.interruption.ranks import is_first_of_command, is_rank_zero, started_processes
from attention_lab.interruption.resume import AUTO, has_checkpoint
from attention_lab.runs.run_names import exclude_from_names, job_configuration
from attention_lab.untrusted.folder_links import MOST_FILES, OPENED, check_links

MOST_JOBS = 100
"""A sweep's folder may have as many files as that many runs."""


def check_folder_writable(arguments: Sequence[str]) -> None:
    """Raise LabError if Hydra cannot create the run's folder; its own error is many lines long."""
    if any(argument.startswith("--") and argument != "--multirun" for argument in arguments):
        return  # options such as --help write nothing
    given = paths_given(arguments, "hydra.run.dir", "hydra.sweep.dir") or ["logs"]
    folder = Path(given[-1].partition("${")[0]).absolute()
    existing = next(path for path in (folder, *folder.parents) if exists(path))
    try:
        with suppress(FileNotFoundError):
            folder.stat()  # an error if its name is too long
        Path(tempfile.mkdtemp(dir=existing)).rmdir()  # permission bits are misleading for /proc and for root
    except OSError as error:
        sweeps = any(one in ("-m", "--multirun") or one.startswith("sweep=") for one in arguments)
        option = "hydra.sweep.dir" if sweeps else "hydra.run.dir"
        raise LabError(
            f"cannot write in {existing}: {error.strerror}; choose another folder with {option}=..."
        ) from None


class FolderCheck(Callback):
    """A Hydra callback that gives a run or sweep its folder, and rejects one in which files could be lost.

    A folder whose name has the time is new (see `claim_new_folder`). Any other may exist already.
    The folder may come from someone else. If a run or sweep continues in it, no link in it may lead outside
    (see `check_links`; `resume=<folder>` checks this when it is expanded). Where any other run writes, there
    may be no link at all. A new run, or a job of a new sweep, must not replace an older one's checkpoints.
    A sweep that is stopped between two jobs says how to resume it.
    """

    @errors_in_one_line()
    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Create the run's folder if it is named by the time; otherwise check it, if there is one already."""
        _check_named(config.hydra.run.dir, "hydra.run.dir")
        _check_repeatable(config, "run")
        _check_shared(config)
        claim_new_folder(config, "run")
        folder = Path(config.hydra.run.dir)
        if config.get("resume") == AUTO:
            check_links(folder)
            return
        check_links(folder, names=OPENED)
        if is_first_of_command() and config.get("stage") == "fit" and config.get("resume") is None:
            _check_new(folder, "it")

    @errors_in_one_line()
    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Create or check the folder of a sweep or search; check those of a sweep's jobs."""
        try:
            _ = config.hydra.sweep.dir
        except InterpolationResolutionError:  # it refers to Hydra's choices, which are not set yet
            HydraConfig.instance().set_config(config)
        _check_named(config.hydra.sweep.dir, "hydra.sweep.dir")
        _check_repeatable(config, "sweep")
        claim_new_folder(config, "sweep")
        folder = Path(config.hydra.sweep.dir)
        if config.get("resume") == AUTO or config.get("sweep") is not None:
            check_links(folder, MOST_FILES * MOST_JOBS)
        else:
            check_links(folder, names=OPENED)
        if is_rank_zero() and matches_in(folder, "*"):
            for job, trains in _new_jobs(config):
                _check_job(job, folder)
                if trains:
                    _check_new(job, "the sweep")
        if config.get("stage") == "fit":
            say_before_exit(partial(print_between_jobs, config))


def _check_named(folder: str | None, option: str) -> None:
    if not folder:
        raise LabError(
            f"{option} is empty: give a folder, such as {option}=logs/mine, or leave the option out"
        )


def _check_repeatable(config: DictConfig, kind: str) -> None:
    """Check that with `resume=auto` the same command leads to the same folder: its name has no time."""
    if config.get("resume") == AUTO and is_named_by_time(config, kind):
        raise LabError(
            f"resume=auto needs the same folder every time: add hydra.{kind}.dir=logs/NAME to the command"
        )


def _check_shared(config: DictConfig) -> None:
    """Check that the processes that torchrun or srun has started for a run find the same folder."""
    processes = started_processes()
    if processes > 1 and config.get("stage") in ("fit", "test") and is_named_by_time(config, "run"):
        raise LabError(
            f"the {processes} processes of this run need one folder: "
            "add hydra.run.dir=logs/NAME to its command"
        )


def _check_new(folder: Path, it: str) -> None:
    if has_checkpoint(folder):
        choices = f"continue {it} with resume=auto, or choose another folder"
        raise LabError(f"{folder} has checkpoints of a run: {choices}")


def _check_job(job: Path, sweep: Path) -> None:
    if ".." not in job.parts and job.is_relative_to(sweep) and not is_inside(job, sweep):
        raise LabError(f"{job} links out of the sweep's folder: replace it with a copy")
    check_links(job, names=OPENED)


def _new_jobs(config: DictConfig) -> Iterator[tuple[Path, bool]]:
    """The folders of a new sweep's jobs, and whether these train a new model.

    There are none for other sweepers, whose jobs are not known yet.
    """
    if not needs_listed_values(config):
        return
    loader = GlobalHydra.instance().config_loader()
    overrides = sweep_overrides(config)
    if any(one.is_sweep_override() and not one.is_discrete_sweep() for one in overrides):
        return  # the leaderboard's callback reports it
    named = copy.deepcopy(config)
    if any(one.is_sweep_override() for one in overrides):
        exclude_from_names(named, [one.key_or_group for one in overrides if not one.is_sweep_override()])
    try:
        for number, options in enumerate(BasicSweeper.split_arguments(overrides, None)[0]):
            job, place = job_configuration(loader, named, options, number)
            yield place, job.get("stage") == "fit" and job.get("resume") is None
    except HydraException:  # Hydra reports it when it composes the job's configuration again
        return
