"""The leaderboard, printed after a sweep or by a stage that compares any runs. It needs no torch."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.option_values import check_labels, check_pictures_format
from attention_lab.config_parts import SEED
from attention_lab.console_text import console_message
from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.files.run_files import METRICS
from attention_lab.files.writing import write_atomically
from attention_lab.leaderboard.failures import Failure, describe_failures
from attention_lab.leaderboard.plots import draw_axes, draw_board
from attention_lab.leaderboard.ranking import rank
from attention_lab.leaderboard.settings import (
    COSTS,
    group_runs,
    headlines,
    higher_is_better,
    naming_options,
    varied_options,
)
from attention_lab.leaderboard.tables import Section, count, print_leaderboard, to_csv, to_markdown
from attention_lab.leaderboard.view import View, choose_view
from attention_lab.runs.given_runs import given_folders, output_folder
from attention_lab.runs.run_folder import Job, find_runs, tags_of
from attention_lab.viz import Format

NAME = "leaderboard"


def leaderboard(config: DictConfig) -> None:
    """Compare all runs in and below `run`: a folder, a pattern, or a list of them.

    The files go into that folder, or into this job's own if several are given or `hydra.run.dir` is set.

    Raises:
        LabError: `run` is not a folder, or it contains no runs.
    """
    check_pictures_format(config)
    check_labels(config)
    folders = given_folders(config)
    jobs, tags = find_runs(folders), list(config.tags or [])
    if jobs and tags:
        known = sorted({tag for job in jobs for tag in tags_of(job)})
        jobs = [job for job in jobs if set(tags) <= set(tags_of(job))]
        if not jobs:
            raise LabError(
                f"tags={_given(config.tags)}: no run in run={_given(config.run)} has all of these tags; "
                f"its runs have {', '.join(known) or 'none'}"
            )
    if not jobs:
        raise LabError(
            f"run={_given(config.run)}: no runs found; the folder of a run has config.yaml and {METRICS}"
        )
    found = write_leaderboard(output_folder(folders), jobs, choose_view(folders), config.pictures_format)
    if not found.done:
        raise LabError(f"nothing to compare: {'; '.join(found.failures())}")
    for line in found.failures():
        print(line)


def _given(given: Any) -> str:
    return f"[{','.join(map(str, given))}]" if OmegaConf.is_list(given) else str(given)


@dataclass(frozen=True)
class Comparison:
    """The result of comparing runs.

    Attributes:
        done: the runs with results.
        sections: their tables, one per data set.
        failed: the runs without results.
        view: what is shown of them.
    """

    done: Sequence[Job]
    sections: Sequence[Section]
    failed: Sequence[Failure]
    view: View

    def failures(self) -> list[str]:
        """One line for each reason why runs have no results."""
        return describe_failures(self.failed, len(self.done) + len(self.failed))


def compare_runs(jobs: Sequence[Job], view: View, folder: Path) -> Comparison:
    """Compare runs; those that differ only in their seed are one setting.

    Runs on different data are not compared. If `view.x` is an option, runs that differ in it are not either.

    Args:
        jobs: the runs.
        view: what to show of them.
        folder: the paths of failed runs are given relative to this folder.

    Raises:
        LabError: `view` names a metric that no run has.
    """
    done = [job for job in jobs if job.error is None]
    view = _measured(done, view)
    _check(done, view)
    distinct = [*varied_options(jobs), SEED]
    failed = [
        Failure(job.outcome, job.label(distinct), short_path(job.folder, folder), str(job.error))
        for job in jobs
        if job.error
    ]
    sections = [make_section(name, group, view) for name, group in by_data(done, view)]
    return Comparison(done, sections, failed, view)


def write_leaderboard(folder: Path, jobs: Sequence[Job], view: View, kind: Format = "png") -> Comparison:
    """Print the leaderboard of some runs and write `leaderboard.csv`, `.md` and a picture of format `kind`.

    If `view` has both axes, `comparison.png` is drawn too, or one `comparison_<data>.png` per data set.
    Without any results, nothing is printed or written.

    Raises:
        LabError: `view` names a metric that no run has, or the folder cannot be written to.
    """
    found = compare_runs(jobs, view, folder)
    if not found.done:
        return found
    title = view.title or count(found.sections)
    print_leaderboard(view.title, found.sections)
    pictures = _draw(folder, found.sections, found.done, found.view, title, kind)
    write_atomically(folder / f"{NAME}.csv", to_csv(found.sections))
    write_atomically(folder / f"{NAME}.md", to_markdown(title, found.sections, found.failed, pictures))
    paths = [("Leaderboard", f"{NAME}.{{csv,md,{kind}}}"), *(("Comparison", name) for name in pictures[1:])]
    for name, path in paths:
        print(console_message(name, f"{short_path(folder)}/{path}"), flush=True)
    if found.view != view:
        print(console_message("Comparison", f"not drawn: no run was long enough to measure {view.x}"))
    return found


def by_data(jobs: Sequence[Job], view: View) -> list[tuple[str, list[Job]]]:
    """Group the runs by the data they were tested on, with its name (empty if there is only one).

    Different files of the user are different data, unless they are the x axis of `view`.
    """
    options = dict.fromkeys(key for job in jobs for key in job.options)
    tested = [key for key in options if key.startswith("data.test") or (key == "data.file" and key != view.x)]
    keys = ["data", *(key for key in tested if len({str(job.value(key)) for job in jobs}) > 1)]
    found = group_runs(jobs, keys)
    # Leave out options that these runs' data does not have.
    names = [
        setting.describe(["data", *(key for key in keys if key in setting.jobs[0].options)])
        for setting in found
    ]
    return [
        (name if len(found) > 1 else "", list(setting.jobs))
        for name, setting in zip(names, found, strict=True)
    ]


def make_section(name: str, jobs: Sequence[Job], view: View) -> Section:
    """Make the table of runs on the same data."""
    metrics = _metrics(jobs, view)
    keys = [key for key in (view.group, view.x) if key is not None and key not in metrics]
    keys += [key for key in varied_options(jobs) if key not in keys]
    keys = keys or naming_options(jobs)
    block_keys = [view.x] if view.x is not None and view.x in keys else []
    largest = higher_is_better(metrics[0], jobs)
    blocks = [
        rank(group_runs(setting.jobs, keys), metrics[0], largest, setting.options)
        for setting in group_runs(jobs, block_keys)
    ]
    aside = {"fit/seconds", *headlines(jobs)[3:]} - {metrics[0], view.x, view.size, *view.also}
    return Section(name, keys, metrics, blocks, aside)


def _metrics(jobs: Sequence[Job], view: View) -> list[str]:
    """The metrics of the table that at least one run has, beginning with the one that is compared."""
    known = _known(jobs)
    needed = [view.y, view.x] if view.y in known else [*headlines(jobs), "fit/seconds"]
    asked = (*needed[:1], *COSTS, *needed[1:], view.size, *view.also)
    return list(dict.fromkeys(name for name in asked if name in known))


def _known(jobs: Sequence[Job]) -> list[str]:
    return sorted({name for job in jobs for name in job.metrics})


def _measured(jobs: Sequence[Job], view: View) -> View:
    """The view, without an x axis that no run was long enough to measure."""
    return replace(view, x=None) if view.x in COSTS and view.x not in _known(jobs) else view


def _check(jobs: Sequence[Job], view: View) -> None:
    """Raise LabError if no run has a metric or an axis of the view; data sets without it use another one."""
    known = _known(jobs)
    for name in (view.y, view.x if view.x is not None and "/" in view.x else None):
        if jobs and name is not None and name not in known:
            raise LabError(f"{view.source}: no job has the metric {name}: choose {', '.join(known)}")
    for name in (view.x, view.group):
        if jobs and name is not None and all(job.value(name) is None for job in jobs):
            raise LabError(f"{view.source}: {name} is not an option, a group or a metric of these runs")


def _draw(
    folder: Path, sections: Sequence[Section], done: Sequence[Job], view: View, title: str, kind: Format
) -> list[str]:
    """Draw the pictures; returns their file names."""
    pictures = []
    if sections:
        write_atomically(folder / f"{NAME}.{kind}", draw_board(title, sections, kind))
        pictures.append(f"{NAME}.{kind}")
    if view.x is None or view.y is None or not done:
        return pictures
    groups = [jobs for _, jobs in by_data(done, view)]
    for section, jobs, name in zip(sections, groups, _plot_names(sections, kind), strict=True):
        rows = group_runs(jobs, section.keys)
        shown = ": ".join(filter(None, (view.title, section.name)))
        write_atomically(folder / name, draw_axes(rows, view, shown, kind))
        pictures.append(name)
    return pictures


def _plot_names(sections: Sequence[Section], kind: Format) -> list[str]:
    """A file name for the plot of each section, which names its data if there are several sections."""
    if len(sections) == 1:
        return [f"comparison.{kind}"]
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        words = re.findall("[A-Za-z0-9]+", section.name.removeprefix("data="))
        name = f"comparison_{'_'.join(words)[:60]}.{kind}"
        names.append(name if name not in names else f"comparison_{number}.{kind}")
    return names
