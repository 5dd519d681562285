"""Write measurements as Markdown: one section per topic; each run replaces the sections of its topics."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attention_lab.text_tables import markdown_table
from benchmarks.measuring.harness import CALM, Comparison, Growth, Least, Row

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Measurements of a topic that makes its own table.

    Args:
        title: the sizes.
        columns: the names of the columns; the first column has names, the others have numbers.
        rows: the cells of each row, as text.
        note: the note below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks`, which replaces the sections of the topics that it runs. The methods in a
table take turns (A, B, C, A, B, C), and the medians are given. They share one process, or have separate
processes if the table gives *CPU time*. *Times faster* is relative to the first row, with the quartiles of
the rounds.
*Extra memory* is the peak of one piece of work beyond what was in use before it. *Error* is the largest
max|a - b| / max|b| of its results, including gradients, against the same in float64. The line below a table
says what the machine could do at that moment: times from two machines or days are comparable only with it.
"""


def section(topic: str, heading: str, setting: str, tables: Sequence[str]) -> str:
    """A topic's section of the file, with marks by which the next run finds it."""
    body = "\n\n".join([f"## {heading.rstrip('.')}", setting, *tables])
    return f"{_start(topic)}\n{body}\n{_end(topic)}"


def has_section(text: str, topic: str) -> bool:
    """Whether the file has a section of this topic."""
    return _start(topic) in text


def merge(text: str, topic: str, new: str) -> str:
    """Replace the topic's old section, or insert a new one where it belongs alphabetically."""
    sections = re.findall(r"^(?=<!-- topic: (\w+) -->\n)(.*?^<!-- end: \1 -->)$", text, re.M | re.S)
    found = dict(sections) | {topic: new}
    return "\n\n".join([INTRODUCTION.rstrip(), *(found[name] for name in sorted(found))]) + "\n"


def _start(topic: str) -> str:
    return f"<!-- topic: {topic} -->"


def _end(topic: str) -> str:
    return f"<!-- end: {topic} -->"


def comparison_table(comparison: Comparison, rows: Sequence[Row], ceiling: Mapping[str, float]) -> str:
    """A comparison's heading, table and note, and the machine's ceiling."""
    columns = ["method", "times faster", "time"]
    columns += ["CPU time"] if comparison.children else ["extra memory"]
    columns += ["error"] if comparison.reference else []
    columns += [comparison.work[1]] if comparison.work else []
    columns += ["TFLOP/s", "of the machine's"] if comparison.least else []
    table = markdown_table(columns, [_row(row, comparison, ceiling) for row in rows], numbers_from=1)
    return _with_remarks(comparison.title, table, comparison.note, rows, ceiling)


def _row(row: Row, comparison: Comparison, ceiling: Mapping[str, float]) -> list[str]:
    if row.trouble:
        empty = 1 + bool(comparison.reference) + bool(comparison.work) + 2 * bool(comparison.least)
        return [row.name, NOTHING, row.trouble, *[NOTHING] * empty]
    low, high = row.spread
    cells = [row.name, f"{number(row.ratio)} ({number(low)} to {number(high)})", duration(row.seconds)]
    if math.isnan(row.ratio):
        cells[1] = NOTHING
    cells.append(duration(row.cpu) if comparison.children else size(row.memory))
    if comparison.reference:
        cells.append(NOTHING if row.error is None else f"{row.error:.0e}".replace("e-0", "e-"))
    if comparison.work:
        cells.append(f"{comparison.work[0] / row.seconds:,.0f}")
    if comparison.least:
        cells += [
            number(comparison.least.products / row.seconds / 1e12),
            share(comparison.least, row.seconds, ceiling),
        ]
    return cells


UNITS = {"G": 1e9, "T": 1e12}


def share(least: Least, seconds: float, ceiling: Mapping[str, float]) -> str:
    """The fraction of the limiting rate that the work reaches: "43% of GEMM" or "80% of copying"."""
    products = least.products / (ceiling[least.gemm] * UNITS[least.gemm[0]])
    # A copy reads and writes each byte that it counts.
    moved = least.moved / (2 * ceiling["GB/s copied"] * UNITS["G"])
    return f"{max(products, moved) / seconds:.0%} of {'GEMM' if products >= moved else 'copying'}"


def growth_table(
    growth: Growth,
    measured: Sequence[tuple[int, Sequence[Row]]],
    ceiling: Mapping[str, float],
    picture: str = "",
) -> str:
    """A growth's heading, picture, table of time and memory at each size, note, and the machine's ceiling."""
    names = list(dict.fromkeys(row.name for _, rows in measured for row in rows))
    lines = []
    for x, rows in measured:
        by_name = {row.name: row for row in rows}
        lines.append([f"{x:,}", *(_grown(by_name.get(name)) for name in names)])
    table = markdown_table([growth.x, *names], lines, numbers_from=0)
    if picture:
        table = f"![{growth.title}]({picture})\n\n{table}"
    return _with_remarks(
        growth.title, table, growth.note, [row for _, rows in measured for row in rows], ceiling
    )


def _grown(row: Row | None) -> str:
    if row is None or row.trouble:
        return row.trouble if row else NOTHING
    return duration(row.seconds) + ("" if row.memory is None else f", {size(row.memory)}")


def own_table(table: Table, ceiling: Mapping[str, float]) -> str:
    """The heading, rows and note of a topic's own table, and the machine's ceiling."""
    text = markdown_table(table.columns, table.rows, numbers_from=1)
    return _with_remarks(table.title, text, table.note, [], ceiling)


def _with_remarks(
    title: str, table: str, note: str, rows: Sequence[Row], ceiling: Mapping[str, float]
) -> str:
    can = ", ".join(f"{number(value)} {unit}" for unit, value in ceiling.items())
    remarks = [note, f"The machine then: {can}." if can else ""]
    if disturbed := [row for row in rows if row.disturbed]:
        worst = max(row.others for row in disturbed)
        remarks.append(
            f"Disturbed: others used more than {CALM:.0%} of the machine, up to {worst:.0%}, during samples "
            f"of {len(disturbed)} of {len(rows)} methods, though these were taken again."
        )
    return "\n\n".join([f"### {title}", table, "\n".join(one for one in remarks if one)]).rstrip()


def number(value: float) -> str:
    """Two digits, or all digits of a larger whole number: 0.85, 4.5, 31, 443."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}" if abs(value) < 1 else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Three digits with a suitable unit: 12.3 ms."""
    if math.isnan(seconds):
        return NOTHING
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"
    return f"{seconds * 1e6:#.3g}".rstrip(".") + " µs"


def size(count: float | None) -> str:
    """Bytes as MiB or GiB."""
    if count is None:
        return NOTHING
    mebibytes = count / 2**20
    if mebibytes >= 1024:
        return f"{mebibytes / 1024:.1f} GiB"
    return f"{mebibytes:.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.1f} MiB"


def read(path: Path) -> str:
    """The content of the file; empty if it does not exist yet."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
