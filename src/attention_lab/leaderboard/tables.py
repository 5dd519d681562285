"""A comparison as a table on the console, in Markdown and in CSV; names may contain any characters."""

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attention_lab.commandline.overrides import as_text
from attention_lab.console_text import counted, printable
from attention_lab.leaderboard.failures import Failure, list_failures
from attention_lab.leaderboard.ranking import Block, Ranked, summarize
from attention_lab.leaderboard.settings import COSTS, MOST_NAMED, Setting, telling_options
from attention_lab.runs.results import COUNTS
from attention_lab.text_tables import (
    csv_text,
    interval_like,
    markdown_table,
    markdown_text,
    metric_name,
    number,
    numbers_like,
)

NOTE = (
    "Mean ± standard deviation over n seeds; 95% interval of the mean by Student's t, clipped to the range "
    "of the metric. Against the best: the mean difference paired over seeds, its 95% interval, and p times "
    "the number of comparisons (Bonferroni)."
)
RESAMPLED = "Intervals of differences also cover the choice of test examples (paired bootstrap, Koehn 2004)."
TWO_SEEDS = "Intervals from two seeds are wide: add seeds, as in seed=1,2,3,4,5."
REPEATED = "Runs that repeat a seed of their setting"
INTERVAL = "95% interval"
"""The column of the mean's interval, after that of the mean."""
_WIDEST = 400
"""Maximum number of characters in a line of a table in a file."""
_COMPARED = 5
"""Columns after the options that a console shows even if their lines must be broken between words."""
_LEAST = 2
"""Those that it shows even if words must be broken."""


@dataclass(frozen=True)
class Section:
    """One table of settings with the same metrics, in blocks within which they are compared.

    Attributes:
        name: the data that distinguishes it from other sections; empty if there is only one.
        keys: the options in which its settings differ, or which name its only setting.
        metrics: the metric that is compared, then others.
        blocks: the settings.
        aside: metrics that the console leaves out.
    """

    name: str
    keys: Sequence[str]
    metrics: Sequence[str]
    blocks: Sequence[Block]
    aside: Collection[str] = ()

    @property
    def rows(self) -> list[Ranked]:
        """The settings of all blocks."""
        return [row for block in self.blocks for row in block.rows]

    @property
    def summaries(self) -> list[str]:
        """The result of each block with more than one setting; hints if a seed ran twice or only two did."""
        found = [line for block in self.blocks if len(block.rows) > 1 for line in summarize(block)]
        compared = [row.versus for row in self.rows if row.versus is not None]
        few = any(versus.n == 2 and not versus.certain for versus in compared)
        repeated = sum(
            len(jobs) - 1 for row in self.rows for jobs in row.setting.by_seed(self.metrics[0]).values()
        )
        if repeated:
            found.append(f"{REPEATED}: {repeated:,}; n counts each seed once, with the mean of its runs.")
        return [*found, TWO_SEEDS] if few else found

    @property
    def note(self) -> str:
        """How to read the table."""
        resampled = any(row.versus is not None and row.versus.examples for row in self.rows)
        return f"{NOTE} {RESAMPLED}" if resampled else NOTE


def count(sections: Sequence[Section]) -> str:
    """The numbers of settings and of runs in these tables; if each setting has one run, that of runs."""
    rows = [row for section in sections for row in section.rows]
    runs = sum(len(row.setting.jobs) for row in rows)
    settings = f"{counted(len(rows), 'setting')}, " if len(rows) < runs else ""
    return f"{settings}{counted(runs, 'run')}"


def tabulate(section: Section, *, brief: bool = False) -> tuple[list[str], list[list[str]]]:
    """Header and cells; a column that is empty in all rows is left out.

    Args:
        section: the table.
        brief: for a narrow console: fewer options, fewer metrics, and only the means of all but the first.
    """
    many = brief and len(section.keys) > MOST_NAMED
    keys = telling_options([row.setting for row in section.rows]) if many else section.keys
    first, *others = (name for name in section.metrics if not (brief and name in section.aside))
    compared = [metric_name(first), INTERVAL, "against the best", "p"]
    header = [*keys, "n", *compared, *map(metric_name, others)]
    lines = []
    for row, alone in [(row, len(block.rows) == 1) for block in section.blocks for row in block.rows]:
        n, mean, *_ = row.setting.estimate(first)
        named = [as_text(row.setting.options[key]) for key in keys]
        further = [_mean(row.setting, name, bare=brief or name in COSTS) for name in others]
        interval = _range(mean, *row.setting.interval(first))
        against = ("", "") if alone else _against(row, mean)
        lines.append([*named, str(n), _mean(row.setting, first), interval, *against, *further])
    most = len(keys) + 1
    kept = [place for place in range(len(header)) if place <= most or any(line[place] for line in lines)]
    return [header[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _mean(setting: Setting, metric: str, *, bare: bool = False) -> str:
    found = setting.estimate(metric)
    if not found.n:
        return ""
    counted = metric in COUNTS and found.mean.is_integer()
    mean = f"{found.mean:,.0f}" if counted else number(found.mean)
    return mean + ("" if bare or math.isnan(found.sd) else f" ± {numbers_like(found.mean, found.sd)[0]}")


def _range(mean: float, low: float, high: float) -> str:
    return "" if math.isnan(low) else " to ".join(interval_like(mean, low, high))


def _against(row: Ranked, mean: float) -> tuple[str, str]:
    """The difference from the best, with the decimals of the mean, and p."""
    if row.verdict == "best":
        return "best", ""
    if row.versus is None or math.isnan(row.versus.p):
        return row.why, ""
    versus = row.versus
    p = "< 0.001" if row.p < 0.001 else f"{row.p:.3f}"
    shared = "" if row.shared is None else f" on {row.shared.named}"
    difference, low, high = numbers_like(mean, versus.mean, versus.low, versus.high)
    sign = "" if difference.startswith("-") else "+"
    return f"{sign}{difference} ({low} to {high}){shared}", p


def print_leaderboard(title: str, sections: Sequence[Section]) -> None:
    """Print the tables with as many columns as fit, the names of the others, and the summaries."""
    console = Console()
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console = Console(width=_WIDEST)  # a file has no width, unless the user sets COLUMNS
    for section in sections:
        header, lines = tabulate(section, brief=True)
        heading = " · ".join(filter(None, (title or count([section]), section.name)))
        best = [row.verdict == "best" for row in section.rows]
        columns, first = len(header), header.index("n")
        table = _table(header, lines, best)
        while columns > first + _LEAST and not _fits(table, console, first):
            columns -= 1
            table = _table(header[:columns], [line[:columns] for line in lines], best)
        # The title of a table would be broken at its width.
        console.print(printable(heading, 3000), style="bold", markup=False, highlight=False, soft_wrap=True)
        console.print(table)
        left_out = [name for name in tabulate(section)[0] if name not in header[:columns]]
        named = [name for name in left_out if name not in section.keys]
        if options := len(left_out) - len(named):
            named = [counted(options, "option"), *named]
        if named:
            note = f"not shown, but in leaderboard.md and leaderboard.csv: {', '.join(named)}"
            console.print(printable(note, 3000), markup=False, highlight=False, soft_wrap=True)
        for summary in section.summaries:
            console.print(printable(summary, 3000), markup=False, highlight=False, soft_wrap=True)


def _fits(table: Table, console: Console, options: int) -> bool:
    """Whether a table fits a console; unless it has few columns after the options, without broken lines."""
    least, most = console.measure(table, options=console.options.update(width=_WIDEST))
    few = len(table.columns) <= options + _COMPARED
    return (least if few else most) <= console.width


def _table(header: Sequence[str], lines: Sequence[Sequence[str]], best: Sequence[bool]) -> Table:
    table = Table()
    for place, name in enumerate(header):
        side: Literal["left", "right"] = "right" if place >= header.index("n") else "left"
        table.add_column(_plain(name), justify=side, overflow="fold")  # never truncate numbers
    for line, is_best in zip(lines, best, strict=True):
        table.add_row(*map(_plain, line), style="bold" if is_best else None)
    return table


def _plain(text: str) -> str:
    return escape(printable(text))


def to_markdown(
    title: str, sections: Sequence[Section], failed: Sequence[Failure], pictures: Sequence[str]
) -> str:
    """The tables as Markdown, with the failed runs and the pictures."""
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        parts += [f"## {markdown_text(section.name)}"] if section.name else []
        parts += [markdown_text(summary, 3000) for summary in section.summaries]
        header, lines = tabulate(section)
        rows = [[markdown_text(cell) for cell in row] for row in (header, *lines)]
        parts.append(markdown_table(rows[0], rows[1:], numbers_from=header.index("n")))
        parts.append(section.note)
    if failed:
        parts.append(f"Without results:\n\n{list_failures(failed)}")
    # Markdown cannot show a PDF, so link to it.
    shown = ["" if picture.endswith(".pdf") else "!" for picture in pictures]
    parts += [f"{sign}[{markdown_text(title)}]({one})" for sign, one in zip(shown, pictures, strict=True)]
    return "\n\n".join(parts) + "\n"


def to_csv(sections: Sequence[Section]) -> str:
    """One line per setting: its options, n, and the mean, sd and interval of each metric.

    The last columns are the compared metric, the difference from the best with its interval, p and verdict.
    """
    keys = list(dict.fromkeys(key for section in sections for key in section.keys))
    metrics = list(dict.fromkeys(metric for section in sections for metric in section.metrics))
    ends = [f"{metric}{end}" for metric in metrics for end in ("", " sd", " low", " high")]
    versus = ["compared by", "difference", "difference low", "difference high", "p", "verdict"]
    named = ["section"] if any(section.name for section in sections) else []
    rows: list[list[Any]] = [[*named, *keys, "n", *ends, *versus]]
    for section in sections:
        for row in section.rows:
            filled: list[float | str] = []
            for metric in metrics:
                found = row.setting.estimate(metric)
                filled += map(_filled, (found.mean, found.sd, *row.setting.interval(metric)))
            where = [section.name] if named else []
            options = [row.setting.options.get(key, "") for key in keys]
            n = row.setting.estimate(section.metrics[0]).n
            rows.append([*where, *options, n, *filled, section.metrics[0], *_difference(row), row.verdict])
    return csv_text([[printable(one) if isinstance(one, str) else one for one in row] for row in rows])


def _difference(row: Ranked) -> list[float | str]:
    if row.versus is None:
        return [""] * 4
    return [_filled(value) for value in (row.versus.mean, row.versus.low, row.versus.high, row.p)]


def _filled(value: float) -> float | str:
    return "" if math.isnan(value) else value
