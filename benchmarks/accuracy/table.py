"""The published table, with columns for our results."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

from attention_lab.text_tables import markdown_table, markdown_text
from benchmarks.accuracy.runs import ENSEMBLE, Member, Runs
from benchmarks.accuracy.tasks import Language

RATE = "test/sequence_error_rate"
NORMAL = 1.96
"""Number of standard errors on each side of the mean in a 95% interval."""


class Row(NamedTuple):
    """The results of a language, in percent.

    Attributes:
        language: the name of the language.
        tested: the part that the tested words come from.
        published: the results of others, by the name of their system.
        single: for each kind of model, the results of all seeds.
        ensemble: the result of the ensemble and the ends of its interval, if there is one.
    """

    language: str
    tested: str
    published: dict[str, float]
    single: list[list[float]]
    ensemble: tuple[float, float, float] | None


def table(runs: Runs, languages: Sequence[Language]) -> str:
    """A Markdown table with a row for each language that has a finished run, and their mean, in percent.

    Each kind of model has a column with the mean and standard deviation over the seeds. Below it is the mean
    over the languages, with its standard error due to the seeds. The column of the ensemble has a 95%
    bootstrap interval, resampling words. Below it is the interval of the mean; languages are independent.
    """
    systems, published = runs.task.published()
    found = [_row(runs, language, published.get(language.name, {})) for language in languages]
    rows = [row for row in found if any(row.single)]
    cells = [
        [
            markdown_text(row.language),
            row.tested,
            *(f"{row.published[system]:.1f}" if system in row.published else "" for system in systems),
            *map(_spread, row.single),
            _interval(*row.ensemble) if row.ensemble else "",
        ]
        for row in rows
    ]
    if rows:
        theirs = [[row.published[system] for row in rows if system in row.published] for system in systems]
        means = [f"{mean(values):.1f}" if len(values) == len(rows) else "" for values in theirs]
        singles = [_mean_of([row.single[kind] for row in rows]) for kind in range(len(runs.kinds))]
        cells.append(["**mean**", "", *means, *singles, _mean_interval(rows)])
    seeds = f"{len(runs.seeds)} seeds" if len(runs.seeds) > 1 else f"seed {runs.seeds[0]}"
    ours = [f"ours, {name} ({seeds})" for name in _titles(runs.kinds)]
    header = ["language", "words", *systems, *ours, "ours, ensemble"]
    return markdown_table(header, cells, numbers_from=2).rstrip("\n") + f"\n\n{runs.task.note}\n"


def _titles(kinds: Sequence[str]) -> list[str]:
    """The names of the kinds of models: their first options, if these are all different."""
    first = [kind.split()[0] if kind else "one model" for kind in kinds]
    return first if len(set(first)) == len(first) else list(kinds)


def _row(runs: Runs, language: Language, published: dict[str, float]) -> Row:
    single = []
    for kind in runs.kinds:
        results = [runs.results(language, Member(kind, seed)) for seed in runs.seeds]
        single.append([_percent(runs, result[RATE]) for result in results if result])
    combined = len(runs.members) > 1 and runs.is_combined(language)
    together = runs.results(language, ENSEMBLE) if combined else None
    if together is None:
        return Row(language.name, language.tested, published, single, None)
    low, high = sorted(_percent(runs, together[f"{RATE}_{end}"]) for end in ("low", "high"))
    centre = _percent(runs, together[RATE])
    return Row(language.name, language.tested, published, single, (centre, low, high))


def _percent(runs: Runs, rate: float) -> float:
    return 100 * (1 - rate if runs.task.accuracy else rate)


def _interval(centre: float, low: float, high: float) -> str:
    return f"{centre:.1f} ({low:.1f} to {high:.1f})"


def _spread(rates: Sequence[float]) -> str:
    """The mean over the seeds and their standard deviation."""
    if not rates:
        return ""
    return f"{mean(rates):.1f}" + (f" ± {stdev(rates):.1f}" if len(rates) > 1 else "")


def _mean_of(languages: Sequence[Sequence[float]]) -> str:
    """The mean over the languages, if each has a result, and its standard error due to the seeds."""
    if not all(languages):
        return ""
    centre = f"{mean(map(mean, languages)):.1f}"
    if any(len(rates) < 2 for rates in languages):
        return centre
    variance = sum(stdev(rates) ** 2 / len(rates) for rates in languages) / len(languages) ** 2
    return f"{centre} ± {variance**0.5:.1f}"


def _mean_interval(rows: Sequence[Row]) -> str:
    """The mean of the ensembles and its interval, if every language has an ensemble."""
    ensembles = [row.ensemble for row in rows if row.ensemble]
    if len(ensembles) < len(rows):
        return ""
    centre = mean(value for value, _, _ in ensembles)
    errors = [(high - low) / 2 / NORMAL for _, low, high in ensembles]
    half = NORMAL * sum(error**2 for error in errors) ** 0.5 / len(errors)
    return _interval(centre, centre - half, centre + half)
