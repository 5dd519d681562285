"""Settings in order of a metric, each against the best: the statistics of the leaderboard."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from attention_lab.leaderboard.settings import Setting, bounds, distinguishing_options, format_value
from attention_lab.leaderboard.significance import LEVEL, Array, Difference, compare, resample
from attention_lab.runs.run_folder import Job
from attention_lab.runs.test_predictions import TestPredictions, read_test_predictions

Verdict = Literal["best", "tied", "worse", "open"]
"""Of a setting against the best: not distinguishable from it is `tied`, not to be compared `open`."""


@dataclass(frozen=True)
class Ranked:
    """A setting in its place.

    Attributes:
        cell: its runs.
        verdict: against the best of its block.
        versus: what it has more than the best; None of the best itself, and where they cannot be compared.
        p: that of the difference, times the number of comparisons; see `rank`.
        why: why it could not be compared.
    """

    cell: Setting
    verdict: Verdict
    versus: Difference | None = None
    p: float = math.nan
    why: str = ""


@dataclass(frozen=True)
class Block:
    """Settings that are compared with one another: those that share `options`."""

    options: Mapping[str, Any]
    metric: str
    largest: bool
    rows: Sequence[Ranked]

    @cached_property
    def keys(self) -> list[str]:
        """The options that tell its settings apart."""
        return distinguishing_options([row.cell for row in self.rows])

    def name(self, row: Ranked) -> str:
        """A setting by what tells it from the others; where that is one option, by its value alone."""
        if len(self.keys) == 1:
            return format_value(row.cell.options[self.keys[0]])
        return row.cell.told(self.keys)

    def named(self, verdict: Verdict) -> list[Ranked]:
        """The settings of a verdict, in order."""
        return [row for row in self.rows if row.verdict == verdict]


def rank(cells: Sequence[Setting], metric: str, largest: bool, options: Mapping[str, Any]) -> Block:
    """Order the settings by their mean and compare each with the best one, paired over common seeds.

    The best is the one with the best mean. Each of the other k settings is compared with it by `compare`, and
    its p is multiplied by k (Bonferroni). Those below 0.05 are worse. What is left, the best and what cannot
    be told from it, holds the setting that is best in truth with a probability of at least 95%, although the
    data named the one that all were compared with: to lose the true best, it would have to come out worse in
    one of its k comparisons with the others (multiple comparisons with the best: Hsu 1981, "Simultaneous
    confidence intervals for all distances from the 'best'", 1984, "Constrained simultaneous confidence
    intervals for multiple comparisons with the best").

    Where the metric is an error rate and the runs kept their predictions, test examples are resampled too. Of
    the interval of a difference what the metric cannot have is cut off: two accuracies are 1 apart at most.

    Args:
        cells: the settings.
        metric: what they are compared by.
        largest: whether more is better.
        options: what they have in common.
    """
    means = {id(cell): _mean(cell, metric) for cell in cells}
    ordered = sorted(cells, key=lambda cell: _place(means[id(cell)], largest))
    if not ordered or not math.isfinite(means[id(ordered[0])]):
        return Block(options, metric, largest, [Ranked(cell, "open", why="no value") for cell in ordered])
    best, *others = ordered
    outcomes = _outcomes([job for cell in cells for job in cell.jobs], metric)
    drawn = _drawn(outcomes)
    rows = [Ranked(best, "best")]
    for cell in others:
        if not math.isfinite(means[id(cell)]):
            rows.append(Ranked(cell, "open", why="diverged"))
            continue
        rows.append(_versus(cell, best, metric, outcomes, drawn, len(others)))
    return Block(options, metric, largest, rows)


def _versus(
    cell: Setting,
    best: Setting,
    metric: str,
    outcomes: Mapping[int, TestPredictions],
    drawn: Mapping[int, Array],
    comparisons: int,
) -> Ranked:
    mine, its = cell.values(metric), best.values(metric)
    seeds = [seed for seed in its if seed in mine]
    if not seeds:
        return Ranked(cell, "open", why="no seed in common with the best")
    pairs = [(cell.by_seed(metric)[seed], best.by_seed(metric)[seed]) for seed in seeds]
    for pair in pairs:
        if len({outcomes[id(job)].sources for jobs in pair for job in jobs if id(job) in outcomes}) > 1:
            return Ranked(cell, "open", why="other test examples than the best")
    resampled = None
    if all(id(job) in drawn for pair in pairs for jobs in pair for job in jobs):
        resampled = np.mean([_rates(jobs, drawn) - _rates(others, drawn) for jobs, others in pairs], axis=0)
    versus = compare([mine[seed] - its[seed] for seed in seeds], resampled)
    low, high = bounds(metric)
    versus = versus._replace(low=max(versus.low, low - high), high=min(versus.high, high - low))
    if math.isnan(versus.p):
        return Ranked(cell, "open", versus, why="one seed in common with the best")
    p = min(1.0, versus.p * comparisons)
    return Ranked(cell, "worse" if p < 1 - LEVEL else "tied", versus, p)


def _rates(jobs: Sequence[Job], drawn: Mapping[int, Array]) -> Array:
    """The mean of a seed's runs, on each resample."""
    rates: Array = np.mean([drawn[id(job)] for job in jobs], axis=0)
    return rates


def _outcomes(jobs: Sequence[Job], metric: str) -> dict[int, TestPredictions]:
    found = {id(job): read_test_predictions(job, metric) for job in jobs}
    return {name: outcomes for name, outcomes in found.items() if outcomes is not None}


def _drawn(outcomes: Mapping[int, TestPredictions]) -> dict[int, Array]:
    """The rates of all runs on resamples of their examples; runs with the same examples share them."""
    tests: dict[tuple[str, ...], list[int]] = {}
    for job, one in outcomes.items():
        tests.setdefault(one.sources, []).append(job)
    drawn: dict[int, Array] = {}
    for number, jobs in enumerate(tests.values()):
        rates = resample(
            np.stack([outcomes[job].numerators for job in jobs]),
            np.stack([outcomes[job].denominators for job in jobs]),
            seed=number,
        )
        drawn |= dict(zip(jobs, rates.T, strict=True))
    return drawn


def _mean(cell: Setting, metric: str) -> float:
    found = cell.estimate(metric)
    return math.nan if found is None else found.mean


def _place(mean: float, largest: bool) -> float:
    return math.inf if not math.isfinite(mean) else -mean if largest else mean


def summarize(block: Block) -> str:
    """What the block says, in one line."""
    where = " ".join(f"{key}={format_value(value)}" for key, value in block.options.items())
    if not block.rows or block.rows[0].verdict != "best":
        return f"{where}: nothing to compare".removeprefix(": ")
    best = block.rows[0]
    direction = "highest" if block.largest else "lowest"
    parts = [f"best by {block.metric} ({direction}): {block.name(best)}"]
    tied, worse = block.named("tied"), block.named("worse")
    if tied:
        parts.append(f"not distinguishable from it at 95%: {_list(tied, block)}")
    if worse:
        parts.append(f"worse: {_list(worse, block)}")
    if left := block.named("open"):
        reasons = dict.fromkeys(row.why for row in left)
        parts += [
            f"not compared ({why}): {_list([row for row in left if row.why == why], block)}"
            for why in reasons
        ]
    if any(row.versus is not None and row.versus.n == 1 for row in (*tied, *worse)):
        parts.append("of one seed this holds for these trained models alone")
    return f"{where}: {'; '.join(parts)}".removeprefix(": ")


def _list(rows: Sequence[Ranked], block: Block) -> str:
    return ", ".join(block.name(row) for row in rows)
