"""A comparison as a table: on the console, as Markdown and as CSV."""

import csv
import io
import math
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attention_lab.experiment.sweep import Cell, Estimate


def number(value: float) -> str:
    """Four digits, or all those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 or (value.is_integer() and value > 1) else f"{value:#.4g}"


def or_nan(found: Estimate | None) -> Estimate:
    """The estimate; from no value where there is none."""
    return Estimate(0, math.nan, math.nan, math.nan) if found is None else found


def tabulate(
    rows: Sequence[Cell], keys: Sequence[str], metrics: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Header and cells: the options, the number of seeds, the first metric with its interval, the others."""
    header = [*keys, "n", *metrics[:1], "95% interval", *metrics[1:]]
    lines = []
    for row in rows:
        first, *others = (or_nan(row.estimate(metric)) for metric in metrics)
        interval = "" if math.isnan(first.half) else _interval(first)
        named = [str(row.options[key]) for key in keys]
        lines.append([*named, str(first.n), _mean(first), interval, *map(_mean, others)])
    if lines and all(not line[len(keys) + 2] for line in lines):
        header.pop(len(keys) + 2)
        for line in lines:
            line.pop(len(keys) + 2)
    return header, lines


def _mean(found: Estimate) -> str:
    return number(found.mean) + ("" if math.isnan(found.sd) else f" ± {found.sd:.2g}")


def _interval(found: Estimate) -> str:
    return f"{number(found.mean - found.half)} to {number(found.mean + found.half)}"


def show(
    title: str, header: Sequence[str], lines: Sequence[Sequence[str]], failed: Mapping[str, str]
) -> None:
    """Print the table and the failed jobs."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if lines:
        table = Table(*header, title=title, title_justify="left", title_style="bold")
        for column in table.columns[header.index("n") :]:
            column.justify = "right"
        for line in lines:
            table.add_row(*map(escape, line))
        console.print(table)
    for label, reason in failed.items():
        console.print(f"failed: {label}: {reason}", markup=False, highlight=False, soft_wrap=True)


def to_markdown(
    title: str,
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    failed: Mapping[str, str],
    picture: str | None,
) -> str:
    """The table as Markdown, with the failed jobs and the picture."""
    parts = [f"# {title}"]
    if lines:
        ruler = ["---:" if name not in header[: header.index("n")] else "---" for name in header]
        rows = [header, ruler, *([cell.replace("|", "\\|") for cell in line] for line in lines)]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        parts.append("Mean ± standard deviation over n seeds; interval of the mean by Student's t.")
    if failed:
        parts.append(
            "\n".join(["Failed:", "", *(f"- `{label}`: {reason}" for label, reason in failed.items())])
        )
    if picture:
        parts.append(f"![{title}]({picture})")
    return "\n\n".join(parts) + "\n"


def to_csv(rows: Sequence[Cell], keys: Sequence[str], metrics: Sequence[str]) -> str:
    """A line for each cell: its options, n, and of each metric mean, sd and the ends of the interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = [f"{metric}{end}" for metric in metrics for end in ("", " sd", " low", " high")]
    writer.writerow([*keys, "n", *ends])
    for row in rows:
        found = [or_nan(row.estimate(metric)) for metric in metrics]
        values = [(one.mean, one.sd, one.mean - one.half, one.mean + one.half) for one in found]
        filled = ["" if math.isnan(value) else value for four in values for value in four]
        writer.writerow([*(row.options[key] for key in keys), len(row.jobs), *filled])
    return text.getvalue()
