"""Rank settings by a metric and compare each with the best: the statistics of the leaderboard."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from attention_lab.commandline.overrides import as_text
from attention_lab.leaderboard.settings import Setting, bounds, distinguishing_options, telling_options
from attention_lab.leaderboard.significance import LEVEL, Array, Difference, compare, resample
from attention_lab.runs.rates_by_example import RatesByExample, read_rates_by_example
from attention_lab.runs.run_folder import Job
from attention_lab.text_tables import metric_name, number

Verdict = Literal["best", "tied", "worse", "open"]
"""How a setting compares with the best: `tied` if not distinguishable from it, `open` if not comparable."""
_ROUNDING = 2.0**-22  # metrics are float32, and two of them are subtracted
_NAMED = 5  # largest number of seeds that are named
_LISTED = 10  # largest number of settings named in one statement


class Shared(NamedTuple):
    """The seeds that a setting has in common with the best, if they are not all seeds of both.

    Attributes:
        seeds: the shared seeds.
        mean: the setting's mean over them.
        best: the best setting's mean over them.
    """

    seeds: Sequence[str]
    mean: float
    best: float

    @property
    def named(self) -> str:
        """The seeds, in words."""
        shown = [*self.seeds[:_NAMED], *(["..."] if len(self.seeds) > _NAMED else [])]
        return f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(shown)}"


@dataclass(frozen=True)
class Ranked:
    """A setting and how it compares with the best one.

    Attributes:
        setting: the setting.
        verdict: the comparison with the best of its block.
        versus: its difference from the best; None for the best itself, or if they cannot be compared.
        p: p-value of the difference times the number of comparisons; see `rank`.
        why: why the two could not be compared.
        shared: the seeds that were compared, if they are not all seeds of both.
    """

    setting: Setting
    verdict: Verdict
    versus: Difference | None = None
    p: float = math.nan
    why: str = ""
    shared: Shared | None = None


@dataclass(frozen=True)
class Block:
    """Settings that share `options` and are compared with one another."""

    options: Mapping[str, Any]
    metric: str
    largest: bool
    rows: Sequence[Ranked]

    @cached_property
    def keys(self) -> list[str]:
        """The options in which its settings differ."""
        return distinguishing_options([row.setting for row in self.rows])

    @cached_property
    def named_keys(self) -> list[str]:
        """The options that name its settings; for an only setting, all but those of the block."""
        if len(self.rows) == 1:
            return [key for key in self.rows[0].setting.options if key not in self.options]
        return telling_options([row.setting for row in self.rows])

    @cached_property
    def _differ_in_a_name(self) -> bool:
        if len(self.keys) != 1:
            return False
        return all(isinstance(row.setting.options[self.keys[0]], str) for row in self.rows)

    def name(self, row: Ranked) -> str:
        """A short name for a setting: as described; if they differ in one option of names, just its value."""
        if self._differ_in_a_name:
            return as_text(row.setting.options[self.keys[0]])
        return self.describe(row)

    def describe(self, row: Ranked) -> str:
        """A setting's distinguishing options, or some of very many, as on the command line."""
        return row.setting.describe(self.named_keys)

    def named(self, verdict: Verdict) -> list[Ranked]:
        """The settings with a verdict, in order."""
        return [row for row in self.rows if row.verdict == verdict]


def rank(settings: Sequence[Setting], metric: str, largest: bool, options: Mapping[str, Any]) -> Block:
    """Order the settings by their mean and compare each with the best one, paired over common seeds.

    The best setting is the one with the best mean. Each of the other k settings is compared with it by
    `compare`, and its p is multiplied by k (Bonferroni). Those with a p below 0.05 are worse. The others,
    including the best, contain the truly best setting with a probability of at least 95%. This holds although
    the data chose the setting that all are compared with: to be excluded, the true best would have to come
    out worse in one of its k comparisons (multiple comparisons with the best: Hsu 1981, "Simultaneous
    confidence intervals for all distances from the 'best'", 1984, "Constrained simultaneous confidence
    intervals for multiple comparisons with the best").

    If the metric is an error rate and the runs kept their predictions, test examples are resampled too. The
    interval of a difference is cut to possible values: two accuracies differ by at most 1.

    If the two have different seeds, a setting may have the worse mean and yet be better on the seeds that
    both have, with such a p. Then it is not called worse, and its verdict is `open`.

    Args:
        settings: the settings, at least one.
        metric: the metric to compare.
        largest: whether higher is better.
        options: the options that the settings share.
    """
    means = {id(setting): setting.estimate(metric).mean for setting in settings}
    ordered = sorted(settings, key=lambda setting: _sort_key(means[id(setting)], largest))
    if not math.isfinite(means[id(ordered[0])]):
        rows = [Ranked(setting, "open", why=_why_no_mean(setting, metric)) for setting in ordered]
        return Block(options, metric, largest, rows)
    best, *others = ordered
    by_example = _read_by_example([job for setting in settings for job in setting.jobs], metric)
    drawn = _resampled_rates(by_example)
    rows = [Ranked(best, "best")]
    for setting in others:
        if not math.isfinite(means[id(setting)]):
            rows.append(Ranked(setting, "open", why=_why_no_mean(setting, metric)))
            continue
        row = _compare_with_best(setting, best, metric, by_example, drawn, len(others))
        # The means that order the settings may be over other seeds than the difference.
        if row.versus is not None and row.verdict == "worse" and (row.versus.mean > 0) == largest:
            row = replace(row, verdict="open", why="better than the best on the seeds that both have")
        rows.append(row)
    return Block(options, metric, largest, rows)


def _why_no_mean(setting: Setting, metric: str) -> str:
    return "diverged" if setting.values(metric) else "no value"


def _compare_with_best(
    setting: Setting,
    best: Setting,
    metric: str,
    by_example: Mapping[int, RatesByExample],
    drawn: Mapping[int, Array],
    comparisons: int,
) -> Ranked:
    own, others = setting.values(metric), best.values(metric)
    seeds = [seed for seed in others if seed in own]
    if not seeds:
        return Ranked(setting, "open", why="no common seed")
    pairs = [(setting.by_seed(metric)[seed], best.by_seed(metric)[seed]) for seed in seeds]
    for pair in pairs:
        if len({by_example[id(job)].sources for jobs in pair for job in jobs if id(job) in by_example}) > 1:
            return Ranked(setting, "open", why="tested on different examples than the best")
    resampled = None
    if all(id(job) in drawn for pair in pairs for jobs in pair for job in jobs):
        resampled = np.mean([_rates(jobs, drawn) - _rates(its, drawn) for jobs, its in pairs], axis=0)
    versus = compare(_differences([own[seed] for seed in seeds], [others[seed] for seed in seeds]), resampled)
    low, high = bounds(metric)
    versus = versus._replace(low=max(versus.low, low - high), high=min(versus.high, high - low))
    if math.isnan(versus.p):
        return Ranked(setting, "open", versus, why="needs two common seeds")
    p = min(1.0, versus.p * comparisons)
    shared = None
    if len(seeds) < max(len(own), len(others)):
        shared = Shared(seeds, fmean(own[seed] for seed in seeds), fmean(others[seed] for seed in seeds))
    return Ranked(setting, "worse" if p < 1 - LEVEL else "tied", versus, p, shared=shared)


def _differences(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """The paired differences; if only the rounding of float32 tells them apart, their mean for all."""
    found = [one - other for one, other in zip(values, others, strict=True)]
    rounding = _ROUNDING * max(map(abs, (*values, *others)))
    return [fmean(found)] * len(found) if max(found) - min(found) <= rounding else found


def _rates(jobs: Sequence[Job], drawn: Mapping[int, Array]) -> Array:
    """The mean rate of runs with the same seed, on each resample."""
    rates: Array = np.mean([drawn[id(job)] for job in jobs], axis=0)
    return rates


def _read_by_example(jobs: Sequence[Job], metric: str) -> dict[int, RatesByExample]:
    """The rates of the runs that have a table of all examples, by the `id` of the job."""
    found = {id(job): read_rates_by_example(job, metric) for job in jobs}
    return {job: rates for job, rates in found.items() if rates is not None}


def _resampled_rates(by_example: Mapping[int, RatesByExample]) -> dict[int, Array]:
    """The rates of all runs on resampled test examples, shared by runs with the same examples."""
    tests: dict[bytes, list[int]] = {}
    for job, one in by_example.items():
        tests.setdefault(one.sources, []).append(job)
    drawn: dict[int, Array] = {}
    for place, jobs in enumerate(tests.values()):
        rates = resample(
            np.stack([by_example[job].numerators for job in jobs]),
            np.stack([by_example[job].denominators for job in jobs]),
            seed=place,
        )
        drawn |= dict(zip(jobs, rates.T, strict=True))
    return drawn


def _sort_key(mean: float, largest: bool) -> float:
    return math.inf if not math.isfinite(mean) else -mean if largest else mean


def summarize(block: Block) -> list[str]:
    """The result of a block, one line per statement."""
    where = " ".join(f"{key}={as_text(value)}" for key, value in block.options.items())
    return [f"{where}: {line}".removeprefix(": ") for line in _statements(block)]


def _statements(block: Block) -> list[str]:
    if block.rows[0].verdict != "best":
        return ["nothing to compare"]
    best = block.rows[0]
    direction = "highest" if block.largest else "lowest"
    parts = [f"best by {metric_name(block.metric)} ({direction}): {block.describe(best)}"]
    tied, worse, left = block.named("tied"), block.named("worse"), block.named("open")
    if tied:
        parts.append(f"not distinguishable from it at 95%: {_list(tied, block)}")
    if worse:
        parts.append(f"worse: {_list(worse, block)}")
    if left:
        reasons = dict.fromkeys(row.why for row in left)
        parts += [
            f"not compared ({why}): {_list([row for row in left if row.why == why], block)}"
            for why in reasons
        ]
    for row in (*tied, *worse, *left):
        if row.shared is not None:
            parts.append(
                f"{block.describe(row)} compared over {row.shared.named}, which both have: "
                f"{number(row.shared.mean)}, against {number(row.shared.best)} for the best"
            )
    if (some := len(block.named_keys)) < (count := len(block.keys)):
        parts.append(f"settings are named by {some} of the {count} options in which they differ")
    if any(row.versus is not None and row.versus.n == 1 for row in (*tied, *worse)):
        parts.append("with one seed, this holds only for these trained models")
    if any(row.versus is not None and row.versus.certain for row in (*tied, *worse)):
        parts.append("all seeds give the same difference, so this holds only for these data")
    return parts


def _list(rows: Sequence[Ranked], block: Block) -> str:
    named = [block.describe(row) for row in rows[:_LISTED]]
    return ", ".join(named) + (f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else "")
