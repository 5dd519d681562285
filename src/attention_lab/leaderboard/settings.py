"""Group runs into settings: the options in which they differ, and their metrics over the seeds."""

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attention_lab.commandline.overrides import as_text, part_of
from attention_lab.config_parts import COMPARED, MECHANISM, SEED
from attention_lab.errors import LabError
from attention_lab.files.run_files import BEST
from attention_lab.leaderboard.significance import Estimate, estimate, mean
from attention_lab.runs.run_folder import Job
from attention_lab.runs.tested_options import is_test
from attention_lab.text_tables import is_interval_end

HEAD = re.compile(r"\bhead[ _]?\d+$")
"""How the name of a single head's metric ends."""
COSTS = ("parameters", "fit/steps_per_second", "fit/peak_memory_mb")
"""Costs of training, shown beside every result."""
MOST_METRICS = 4
"""Most test metrics by which jobs are compared."""
HIGHER_IS_BETTER = ("accuracy", "mass", "monotonicity", "per_second", "bleu", "chrf")
"""Name endings of metrics for which higher is better; for all others, lower is better."""
BOUNDS = {
    **dict.fromkeys(("accuracy", "sequence_error_rate", "alignment_error_rate", "monotonicity"), (0.0, 1.0)),
    **dict.fromkeys(("token_error_rate", "mse", "window_error", "alignment_mass"), (0.0, math.inf)),
    **dict.fromkeys(("seconds", "per_second", "memory_mb", "parameters", "steps"), (0.0, math.inf)),
    **dict.fromkeys(("bleu", "chrf"), (0.0, 100.0)),
    "perplexity": (1.0, math.inf),
}
"""Ranges of metrics, by name ending. Edits can outnumber a reference's symbols, so a rate may exceed 1.

So may the mass on several correct positions, if weights need not sum to 1. A loss may be anything.
"""

MOST_NAMED = 4
"""Most options by which settings are named and listed on the console."""
MOST_OPTIONS = 5_000
"""Maximum number of different options of the compared runs together; hundreds are usual."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ only in the seed, and the options they share."""

    options: Mapping[str, Any]
    jobs: Sequence[Job]

    @property
    def name(self) -> str:
        """Its options, as on the command line."""
        return self.describe(tuple(self.options))

    def describe(self, keys: Collection[str]) -> str:
        """Its options that are in `keys`, as on the command line."""
        own = {key: as_text(value) for key, value in self.options.items() if key in keys}
        return " ".join(f"{key}={value}" for key, value in own.items()) or "all runs"

    def by_seed(self, metric: str) -> dict[str, list[Job]]:
        """The runs that have a metric, by seed."""
        found: dict[str, list[Job]] = {}
        for job in self.jobs:
            if metric in job.metrics:
                found.setdefault(job.seed, []).append(job)
        return found

    def values(self, metric: str) -> dict[str, float]:
        """The mean of a metric for each seed, so that a seed that ran twice counts once."""
        return {
            seed: mean([job.metrics[metric] for job in jobs]) for seed, jobs in self.by_seed(metric).items()
        }

    def estimate(self, metric: str) -> Estimate:
        """The estimate of a metric over the seeds that have it."""
        return estimate(list(self.values(metric).values()))

    def interval(self, metric: str) -> tuple[float, float]:
        """The 95% interval of `estimate`, cut to the range of the metric; NaN without one.

        The true mean lies in that range, so the coverage remains 95%.
        """
        found = self.estimate(metric)
        if math.isnan(found.half):
            return math.nan, math.nan
        low, high = bounds(metric)
        return max(found.mean - found.half, low), min(found.mean + found.half, high)


def bounds(metric: str) -> tuple[float, float]:
    """The least and greatest possible values of a metric, also for a single head."""
    name = _without_head(metric)
    return next((ends for end, ends in BOUNDS.items() if name.endswith(end)), (-math.inf, math.inf))


def _without_head(metric: str) -> str:
    return HEAD.sub("", metric).rstrip("/ ")


def varied_options(jobs: Sequence[Job]) -> list[str]:
    """The options other than the seed that distinguish the runs, no more than needed.

    Options given on the command line come first. If runs that agree in all of these still differ, groups and
    other options of their configurations follow.

    Raises:
        LabError: there are more than `MOST_OPTIONS`; each takes time for each run.
    """
    given = dict.fromkeys(key for job in jobs for key in job.overrides if job.uses(key))
    leaves = dict.fromkeys(key for job in jobs for key in job.options)
    if len({*given, *leaves}) > MOST_OPTIONS:
        raise LabError(f"the runs have more than {MOST_OPTIONS:,} different options: compare fewer of them")
    keys = [key for key in given if key != SEED and len({_given_value(job, key) for job in jobs}) > 1]
    groups, known = _several(group_runs(jobs, keys)), set(keys)
    for key in (*COMPARED, *leaves):
        if not groups:
            break
        if key in known or all(str(job.value(key)) == job.seed for job in jobs):
            continue  # as in data.seed=${seed}
        split = [setting for group in groups for setting in group_runs(group, [key])]
        if len(split) > len(groups):  # so at most once for each run
            groups = _several(split)
            keys.append(key)
    return keys


def naming_options(jobs: Sequence[Job]) -> list[str]:
    """The options that name runs which differ in none: model, score, and given parts of the mechanism."""
    given = {key for job in jobs for key in job.overrides}
    keys = ("model", "scoring", *(key for key in MECHANISM if key in given))
    return [key for key in dict.fromkeys(keys) if jobs[0].value(key) is not None]


def _several(found: Sequence[Setting]) -> list[Sequence[Job]]:
    """The runs of each setting that has several."""
    return [setting.jobs for setting in found if len(setting.jobs) > 1]


def distinguishing_options(found: Sequence[Setting]) -> list[str]:
    """All options in which the settings differ; naming fewer would suggest that the others are the same."""
    options = found[0].options if found else ()
    return [key for key in options if len({as_text(setting.options[key]) for setting in found}) > 1]


def telling_options(found: Sequence[Setting]) -> list[str]:
    """The options by which settings are named: of many, some that tell apart as many settings as possible."""
    keys = distinguishing_options(found)
    if len(keys) <= MOST_NAMED:
        return keys
    chosen, names = list[str](), [""] * len(found)
    for key in keys:
        longer = [f"{name} {as_text(one.options[key])}" for name, one in zip(names, found, strict=True)]
        if len(set(longer)) > len(set(names)):
            chosen, names = [*chosen, key], longer
    chosen = [*chosen, *(key for key in keys if key not in chosen)][:MOST_NAMED]
    return [key for key in keys if key in chosen]


def _given_value(job: Job, key: str) -> str:
    value = job.value(key)
    return _text(key, job.overrides.get(key) if value is None and job.uses(key) else value)


def _text(key: str, value: Any) -> str:
    """A value as text by which runs are grouped: 0 and 0.0 are the same, as in model.dropout=0.

    In a trainer they are not: limit_train_batches=1 is one batch, and 1.0 is all of them. A relative path of
    data is the same as the absolute one, from the current folder.
    """
    if part_of(key) == "data" and key.endswith("file") and isinstance(value, str):
        return os.path.abspath(value)  # noqa: PTH100  # Path keeps ".."
    whole = isinstance(value, float) and value.is_integer() and part_of(key) != "trainer"
    return str(int(value) if whole else value)


def group_runs(jobs: Sequence[Job], keys: Sequence[str]) -> list[Setting]:
    """The jobs grouped by their values of `keys`, in order of first appearance."""
    found: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        found.setdefault(tuple(_text(key, job.value(key)) for key in keys), []).append(job)
    with_tests = any(is_test(job.config) for job in jobs)

    def shown(job: Job, key: str) -> Any:
        """An option; beside tests of other checkpoints, a test after training has the one that it tested."""
        value = job.value(key)
        return BEST if value is None and key == "ckpt_path" and with_tests else value

    return [Setting({key: shown(group[0], key) for key in keys}, group) for group in found.values()]


def headlines(jobs: Sequence[Job]) -> list[str]:
    """The test metrics by which jobs are compared, the monitored one first, without those of single heads.

    Without a test, these are metrics of the validation, or else any.
    """
    known = sorted({name for job in jobs for name in job.metrics})
    tested = [name for name in known if name.startswith("test/")]
    kept = [name for name in tested if name != "test/loss" and not is_interval_end(name, tested)]
    validated = [name for name in known if name.startswith("validation/") and not HEAD.search(name)]
    names = [name for name in kept if not HEAD.search(name)] or tested or validated or known
    given = {str(job.value("monitor.metric")) for job in jobs}
    monitored = {*given, *map(_tested, given)}
    last = ("test/alignment", "test/monotonicity")
    ordered = sorted(names, key=lambda name: (name not in monitored, name.startswith(last), name))
    return ordered[:MOST_METRICS]


def higher_is_better(metric: str, jobs: Sequence[Job]) -> bool:
    """Whether higher is better: by `monitor.mode` of a run that monitors it, otherwise by its name."""
    for job in jobs:
        monitored = job.value("monitor.metric")
        if metric in (monitored, _tested(monitored)) and job.value("monitor.mode") in ("min", "max"):
            return bool(job.value("monitor.mode") == "max")
    return _without_head(metric).endswith(HIGHER_IS_BETTER)


def _tested(monitored: Any) -> str:
    return str(monitored).replace("validation/", "test/")
