"""A search: trials of an Optuna study, each a run, until there are as many as wanted."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.groups import check_installed
from attention_lab.commandline.overrides import quote
from attention_lab.errors import LabError, first_line
from attention_lab.runs.run_folder import ERROR, PRUNED, read_reason
from attention_lab.text_tables import number

if TYPE_CHECKING:
    from optuna.trial import Trial

    from attention_lab.search.space import Space
    from attention_lab.search.study import SharedStudy

POLL = 2.0
"""Seconds between looks at trials that other processes run."""


class Result(NamedTuple):
    """What came of a run: `complete` with a value, or `pruned` or `failed` with a reason."""

    state: str
    value: float | None = None
    reason: str | None = None


def search(config: DictConfig, given: Sequence[str], launcher: Launcher, loader: ConfigLoader) -> None:
    """Run trials until the study has as many as it should; ends the program with one line if it cannot.

    Args:
        config: the composed configuration.
        given: the options of the command line.
        launcher: runs a trial.
        loader: knows the groups and their choices.
    """
    try:
        _check(config)
        from attention_lab.search.report import report
        from attention_lab.search.space import read_space

        folder = Path(config.hydra.sweep.dir)
        space = read_space(config, given, loader)
        study = _open(config, space, folder)
        OmegaConf.save(config, folder / "multirun.yaml")
        print(f"Search: {folder}", flush=True)
        failed = _run_trials(config, study, space, launcher)
        report(config, study, space, folder)
    except LabError as error:
        sys.exit(f"Error: {error}")
    if failed:
        what = "trial" if len(failed) == 1 else "trials"
        sys.exit(f"Error: {len(failed)} {what} failed; the last: {failed[-1]}")


def _check(config: DictConfig) -> None:
    check_installed("sweep", "optuna")
    for name in ("trials", "failures", "heartbeat"):
        value = config.sweep[name]
        if not isinstance(value, int) or value < 1:
            raise LabError(f"sweep.{name}={value}: choose 1 or more")


def _open(config: DictConfig, space: "Space", folder: Path) -> "SharedStudy":
    from attention_lab.search.study import SharedStudy, storage_url, without_warnings

    # A model without a metric of its own may get one from its space or from the command line.
    given = space.fixed.get("monitor.metric"), space.fixed.get("monitor.mode")
    metric, mode = (
        one.value() if one is not None else config.monitor[name]
        for one, name in zip(given, ("metric", "mode"), strict=True)
    )
    if metric is None:
        raise LabError("sweep=optuna needs a metric: add monitor.metric=validation/loss, say")
    with without_warnings():
        sampler, pruner = instantiate(config.sweep.sampler), instantiate(config.sweep.pruner)
    study = SharedStudy(
        name=str(config.sweep.study),
        url=storage_url(config.sweep.storage, folder),
        folder=folder,
        wanted=config.sweep.trials,
        heartbeat=config.sweep.heartbeat,
        largest=mode == "max",
        sampler=sampler,
        pruner=pruner,
        distributions=space.distributions,
    )
    study.keep_to({**space.describe(), "monitor.metric": f"monitor.metric={metric}"})
    return study


def _run_trials(config: DictConfig, study: "SharedStudy", space: "Space", launcher: Launcher) -> list[str]:
    """Run trials while there are any to run; the reasons of those that failed."""
    failed: list[str] = []
    waited_for: list[int] = []
    while len(failed) < config.sweep.failures:
        trial = study.claim()
        if trial is None:
            others = study.running()
            if not others:
                break
            if others != waited_for:
                print(
                    f"Waiting for trials that other processes run: {', '.join(map(str, others))}", flush=True
                )
                waited_for = others
            time.sleep(POLL)
            continue
        result = _run_trial(config, study, space, launcher, trial)
        if result.state == "failed":
            failed.append(str(result.reason))
    return failed


def _run_trial(
    config: DictConfig, study: "SharedStudy", space: "Space", launcher: Launcher, trial: "Trial"
) -> Result:
    shown = " ".join(f"{key}={_short(value)}" for key, value in trial.params.items())
    print(f"{trial.number}  {shown}", end="  ", flush=True)
    started = time.perf_counter()
    # The job may run elsewhere and with other choices: it is told where its study is.
    own = {"study": config.sweep.study, "storage": study.url, "trial": trial.number}
    overrides = space.overrides(trial.params) + [f"sweep.{key}={quote(value)}" for key, value in own.items()]
    with study.alive(trial):
        (job,) = launcher.launch([overrides], initial_job_idx=trial.number)
        result = read_result(job)
    said = {"complete": number(result.value or 0.0), "pruned": f"pruned {result.reason}"}
    line = said.get(result.state, f"failed: {result.reason}")
    if not study.finish(trial, result.state, result.value, result.reason):
        line = f"{line}; but it was silent for too long, and is run again"
    print(f"{line}  {time.perf_counter() - started:.1f} s", flush=True)
    return result


def read_result(job: JobReturn) -> Result:
    """What came of a run, from what it returned and what it left in its folder."""
    if job.status != JobStatus.COMPLETED:
        return Result("failed", reason=first_line(job._return_value))
    assert job.hydra_cfg is not None
    folder = Path(str(OmegaConf.select(job.hydra_cfg, "hydra.runtime.output_dir")))
    for name, state in ((ERROR, "failed"), (PRUNED, "pruned")):
        if (folder / name).is_file():
            return Result(state, reason=read_reason(folder / name))
    value = job.return_value
    if not isinstance(value, float | int):
        return Result("failed", reason="no checkpoint has a value of the metric: choose callbacks=default")
    if not math.isfinite(value):
        return Result("failed", reason=f"the best value is {value}")
    return Result("complete", float(value))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
