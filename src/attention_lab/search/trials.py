"""Run a search: the trials of an Optuna study, until enough are complete or pruned."""

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import InstantiationException
from hydra.plugins.launcher import Launcher
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from optuna.trial import Trial, TrialState

from attention_lab.commandline.overrides import quote
from attention_lab.config_parts import SEED
from attention_lab.console_text import console_message, counted, one_line, printable
from attention_lab.errors import LabError, first_line, named_line
from attention_lab.files.run_files import ERROR, PRUNED, SWEEP
from attention_lab.files.writing import write_atomically
from attention_lab.job_line import JOB_LINE, jobs_run_in_turn
from attention_lab.runs.recorded_failures import read_reason
from attention_lab.search.report import report
from attention_lab.search.space import Space, read_space, short
from attention_lab.search.storage import blame_database, storage_url, without_warnings
from attention_lab.search.study import Result, SharedStudy
from attention_lab.text_tables import metric_name, number

POLL = 2.0
"""Seconds between checks on the trials of other processes."""


def search(config: DictConfig, given: Sequence[str], launcher: Launcher, loader: ConfigLoader) -> None:
    """Run trials until enough are complete or pruned, and report all of them.

    Raises:
        LabError: an option is invalid, or trials of this process failed.
    """
    for name in ("trials", "failures", "heartbeat"):
        value = config.sweep[name]
        if not isinstance(value, int) or value < 1:
            raise LabError(f"sweep.{name}={value}: choose 1 or more")
    if config.resume is not None:
        raise LabError(
            f"resume={config.resume}: leave it out: a search continues when its command is repeated"
        )
    if config.sweep.study in (None, ""):
        raise LabError("sweep.study is empty: give a name, such as sweep.study=mine, or leave the option out")
    if ".." in Path(str(config.sweep.study)).parts:
        raise LabError(
            f"sweep.study={config.sweep.study} leads out of the folder of searches: give a name without .., "
            "or choose the folder with hydra.sweep.dir=..."
        )
    folder = Path(config.hydra.sweep.dir)
    space = read_space(config, given, loader)
    url = storage_url(config.sweep.storage, folder)
    with blame_database(url):
        failed = _search(config, space, launcher, url, folder)
    if failed:
        raise LabError(f"{counted(len(failed), 'trial')} failed; the last: {failed[-1]}")


def _search(config: DictConfig, space: Space, launcher: Launcher, url: str, folder: Path) -> list[str]:
    """Run the trials and report them; returns the reasons of those that failed in this process."""
    study = _open(config, space, url, folder)
    print(console_message("Search", folder), flush=True)
    if SEED in space.searched:
        warning = (
            f"{space.searched[SEED].input_line} is searched like other options, so that the best trial may "
            "have nothing but the luckiest seed: give one, and train the best trial with several"
        )
        print(console_message("Warning", warning), file=sys.stderr)
    # Pass these on, since the job may run elsewhere, where they would have other values.
    study_options = {"study": config.sweep.study, "storage": url}
    job = partial(_run_trial, space, launcher, study_options)
    failed = _run_trials(study, space, job, config.sweep.failures)
    report(config, study, space, folder)
    return failed


def _open(config: DictConfig, space: Space, url: str, folder: Path) -> SharedStudy:
    """Join the study, and write the configuration of the search to its folder."""
    # If the model has no metric of its own, the space or the command line may set one.
    given = {name: space.fixed.get(f"monitor.{name}") for name in ("metric", "mode")}
    metric, mode = (config.monitor[name] if one is None else one.value() for name, one in given.items())
    if metric is None:
        raise LabError("sweep=optuna needs a metric: for example, add monitor.metric=validation/loss")
    with without_warnings():
        sampler = _make_part("sampler", config.sweep.sampler, optuna.samplers.BaseSampler)
        pruner = _make_part("pruner", config.sweep.pruner, optuna.pruners.BasePruner)
    study = SharedStudy(
        name=str(config.sweep.study),
        url=url,
        folder=folder,
        wanted=config.sweep.trials,
        heartbeat=config.sweep.heartbeat,
        distributions=space.distributions,
        direction="maximize" if mode == "max" else "minimize",
        sampler=sampler,
        pruner=pruner,
    )
    with study.lock:  # another search may correct the options next, and then writes the file last
        study.check_options({**space.describe(), "monitor.metric": f"monitor.metric={metric}"})
        write_atomically(folder / SWEEP, OmegaConf.to_yaml(config))
    return study


def _make_part(name: str, node: Any, kind: type) -> Any:
    """Optuna's sampler or pruner; None for its default. Raises LabError if it cannot be made."""
    if node is None:
        return None
    if not isinstance(node, DictConfig) or node.get("_target_") is None:
        raise LabError(
            f"sweep.{name}={node}: give the class of a {name} of Optuna, or choose one with sweep/{name}=..."
        )
    part = f"sweep.{name}._target_={node._target_}"
    try:
        made = instantiate(node)
    except InstantiationException as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line = named_line(cause) if cause is not error else one_line(error)
        raise LabError(f"{part}: {line}") from None
    if not isinstance(made, kind):
        raise LabError(f"{part} is not a {name} of Optuna")
    return made


def _run_trials(
    study: SharedStudy, space: Space, job: Callable[[Trial], Result], most_failures: int
) -> list[str]:
    """Run trials as long as any are left; returns the reasons of those that failed.

    Raises:
        LabError: a trial failed because of an option that is the same in all trials.
    """
    failed: list[str] = []
    waited_for: list[int] = []
    while len(failed) < most_failures:
        started = time.perf_counter()
        try:
            result = study.run_one(job)
        except Exception:  # such as that the database is gone
            if JOB_LINE.unfinished:
                JOB_LINE.end("failed")
            raise
        if result is None:
            others = [trial.number for trial in study.trials(TrialState.RUNNING)]
            if not others:
                break
            if others != waited_for:
                print(
                    f"Waiting for trials of other processes: {', '.join(map(str, others))} (if these were "
                    f"killed, their trials are run again after {study.storage.grace_period} seconds; sooner "
                    "if you stop this search and repeat it with a shorter sweep.heartbeat)",
                    flush=True,
                )
                waited_for = others
            time.sleep(POLL)
            continue
        value = f"{metric_name(study.metric)} {number(result.value or 0.0)}"
        shown = {"complete": value, "pruned": f"pruned {result.reason}"}
        line = shown.get(result.state, f"{result.state}: {result.reason}")
        ends = result.state == "failed" and space.has_same_error(str(result.reason))
        if ends:
            line = "failed"  # the reason follows, once
        JOB_LINE.end(f"{printable(line, 1000)}  {time.perf_counter() - started:.1f} s")
        if ends:
            raise LabError(result.reason)
        if result.state == "failed":
            failed.append(str(result.reason))
    return failed


def _run_trial(space: Space, launcher: Launcher, study_options: dict[str, str], trial: Trial) -> Result:
    shown = printable(" ".join(f"{key}={short(value)}" for key, value in trial.params.items()), 1000)
    JOB_LINE.begin(f"{trial.number}  {shown}", alone=jobs_run_in_turn(type(launcher).__name__))
    options = {**study_options, "trial": trial.number}
    overrides = [f"sweep.{key}={quote(value)}" for key, value in options.items()]
    (job,) = launcher.launch([space.overrides(trial.params) + overrides], initial_job_idx=trial.number)
    return read_result(job)


def read_result(job: JobReturn) -> Result:
    """The result of a run, from its return value and the files in its folder."""
    if job.status != JobStatus.COMPLETED:
        return Result("failed", reason=first_line(job._return_value))
    assert job.hydra_cfg is not None
    folder = Path(str(OmegaConf.select(job.hydra_cfg, "hydra.runtime.output_dir")))
    for name, state in ((ERROR, "failed"), (PRUNED, "pruned")):
        if (folder / name).is_file():
            return Result(state, reason=read_reason(folder / name))
    value = job.return_value
    if not isinstance(value, float | int):
        reason = (
            "no checkpoint saved the metric's value: choose callbacks=default, no debug=fast_dev_run, and as "
            "many epochs and batches as a validation needs (trainer.check_val_every_n_epoch, "
            "trainer.limit_val_batches)"
        )
        return Result("failed", reason=reason)
    if not math.isfinite(value):
        return Result("failed", reason=f"the best value is {value}")
    return Result("complete", float(value))
