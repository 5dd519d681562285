"""The stage that turns run folders into one HTML file; it does not import torch."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from attention_lab.commandline.option_paths import lookup
from attention_lab.config_parts import SEED
from attention_lab.console_text import console_message, counted
from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists, is_file, open_regular
from attention_lab.files.run_files import CONFIG, LOG, METRICS
from attention_lab.files.writing import write_atomically
from attention_lab.leaderboard.board import by_data, compare_runs
from attention_lab.leaderboard.settings import Setting, group_runs, headlines, varied_options
from attention_lab.leaderboard.view import View, choose_view
from attention_lab.report.html_file import Comparison, Heading, Run, make_page
from attention_lab.report.numbers import comparison, results
from attention_lab.runs.given_runs import given_folders, output_folder
from attention_lab.runs.hparams import flatten_options
from attention_lab.runs.own_files import check_own_files
from attention_lab.runs.prediction_tables import read_confusions, read_worst
from attention_lab.runs.run_folder import (
    Job,
    find_runs,
    read_job,
    read_metrics,
    read_options,
    read_sweep,
    read_yaml_or_none,
)
from attention_lab.tensorboard_plugin.event_files import check_logs, event_folder, read_log

FILE = "report.html"
MOST_VALUES = 1_000_000
"""Maximum number of metrics and options of all runs together; each takes about a kilobyte of memory."""
_TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d")
_LONGEST = 100  # bytes read of the line with the time


def report(config: DictConfig) -> None:
    """Write `report.html` for all runs in and below `run`: a run's or sweep's folder, a pattern, or a list.

    Several runs are compared as in `stage=leaderboard`. The file goes into the given folder, or into this
    job's own folder if several are given or `hydra.run.dir` is set.

    Raises:
        LabError: `run` is not a folder, it contains no run, or the runs have more than `MOST_VALUES` values.
    """
    given = given_folders(config)
    folders = list({path.resolve(): path for folder in given for path in _runs(folder)}.values())
    jobs = [read_job(folder) for folder in folders]
    if sum(len(job.metrics) + len(job.options) for job in jobs) > MOST_VALUES:
        most = f"{MOST_VALUES:,} metrics and options"
        raise LabError(f"the runs have more than {most} together: report on fewer of them")
    names, order, view = _names(jobs), headlines(jobs), choose_view(given)
    rows = zip(jobs, names, _settings(jobs), _data(jobs, view), strict=True)
    for folder in folders:
        check_own_files(folder)
    check_logs(map(event_folder, folders))
    read = _read if len(folders) == 1 else _read_of_several
    runs = [replace(read(job, name, order), setting=setting, data=data) for job, name, setting, data in rows]
    target = output_folder(given)
    page = make_page(_heading(given, folders, view.title), runs, _compare(given, view, target))
    write_atomically(target / FILE, page)
    print(console_message("Report", f"{target / FILE} ({len(page) / 1e6:.1f} MB)"))


def _compare(given: Sequence[Path], view: View, target: Path) -> Comparison | None:
    """The comparison of the runs below some folders; None if there is only one."""
    jobs = find_runs(given)
    if len(jobs) < 2:
        return None
    return comparison(compare_runs(jobs, view, target), target)


def _heading(given: Sequence[Path], folders: Sequence[Path], title: str = "") -> Heading:
    """Title, facts and command line of the run, or of the sweep whose folder is given."""
    started = min(filter(None, map(_started, folders)), default="")
    if len(folders) == 1:
        given_options = read_yaml_or_none(folders[0] / ".hydra" / "overrides.yaml")
        return Heading(_paths(folders)[0], started, _command(given_options))
    count = counted(len(folders), "run")
    if len(given) > 1:
        names = _paths(folders)
        return Heading(" and ".join(names) if len(names) < 3 else count, started)
    name = given[0].resolve().name
    facts = " · ".join(filter(None, [name if title else "", count, started]))
    swept = lookup(read_sweep(given[0]), "hydra", "overrides", "task")
    return Heading(title or _paths(given)[0], facts, _command(swept, "-m"))


def _runs(folder: Path) -> list[Path]:
    """The run in this folder, or all runs below it: those of a sweep, or of `logs`."""
    if is_file(folder / CONFIG):
        return [folder]
    found = [job.folder for job in find_runs([folder]) if is_file(job.folder / CONFIG)]
    if not found:
        raise LabError(f"run={folder}: no runs found; the folder of a run has {CONFIG}")
    return found


def _names(jobs: Sequence[Job]) -> list[str]:
    """The name of each run: its distinguishing overrides, or as much of its path as is needed."""
    keys = [*varied_options(jobs), SEED]
    labels = [job.label(keys) for job in jobs if any(key in job.overrides for key in keys)]
    if len(jobs) > 1 and len(set(labels)) == len(jobs):
        return labels
    return _paths([job.folder for job in jobs])


def _settings(jobs: Sequence[Job]) -> list[str]:
    """The name of each run's setting; empty if there is only one setting, or none has two runs."""
    found = group_runs(jobs, varied_options(jobs))
    if not 1 < len(found) < len(jobs):
        return [""] * len(jobs)
    names = {id(job): _setting_name(setting) for setting in found for job in setting.jobs}
    return [names[id(job)] for job in jobs]


def _setting_name(setting: Setting) -> str:
    """The options of a setting that its runs have; on other data, or of another model, runs have others."""
    job = setting.jobs[0]
    return setting.describe([key for key in setting.options if key in {*job.choices, *job.options}])


def _data(jobs: Sequence[Job], view: View) -> list[str]:
    """The name of each run's data, as in the comparison; empty if all runs were tested on the same."""
    names = {id(job): name for name, group in by_data(jobs, view) for job in group}
    return [names[id(job)] for job in jobs]


def _paths(folders: Sequence[Path]) -> list[str]:
    """The last parts of each path, as many as are needed to distinguish the folders."""
    paths = [folder.resolve() for folder in folders]
    longest = max(len(path.parts) for path in paths)
    names = ["/".join(path.parts[-2:]) for path in paths]
    for parts in range(2, longest + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _read(job: Job, name: str, order: Sequence[str] = ()) -> Run:
    """Read a run's folder, the metrics in `order` first; without a log, it has no curves and no attention.

    Raises:
        LabError: its options or metrics are damaged; the message names the file.
    """
    config, metrics = job.folder / CONFIG, job.folder / METRICS
    options = read_options(config, str(config))
    return _run(job, name, options, read_metrics(metrics, str(metrics)) if exists(metrics) else {}, order)


def _read_of_several(job: Job, name: str, order: Sequence[str]) -> Run:
    """The same for one of several runs: damaged files are left out, and the comparison says why."""
    try:
        return _read(job, name, order)
    except LabError:
        return _run(job, name, job.config, job.metrics, order)


def _run(
    job: Job, name: str, options: Mapping[str, Any], metrics: Mapping[str, float], order: Sequence[str]
) -> Run:
    log = read_log(event_folder(job.folder))
    return Run(
        name,
        {**job.choices, **{path: str(value) for path, value in flatten_options(options).items()}},
        results(metrics, order),
        log.curves,
        log.records,
        samples=log.samples,
        confusions=read_confusions(job.folder),
        worst=read_worst(job.folder),
    )


def _started(folder: Path) -> str:
    """The date and time at which a run started, from its log; empty if it has none."""
    try:
        with open_regular(folder / LOG) as file:
            found = _TIME.match(file.readline(_LONGEST))
    except OSError:
        return ""
    return found[0].decode() if found else ""


def _command(overrides: Any, *options: str) -> str:
    """The command line with these overrides; empty if they are not a list."""
    if not isinstance(overrides, list):
        return ""
    return shlex.join(["python", "train.py", *options, *map(str, overrides)])
