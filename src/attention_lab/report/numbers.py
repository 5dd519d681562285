"""The numbers of runs and their comparison, formatted for the report."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from attention_lab.leaderboard import board
from attention_lab.leaderboard.settings import HEAD
from attention_lab.leaderboard.tables import INTERVAL, Section, tabulate
from attention_lab.report.html_file import Comparison, Result, Table
from attention_lab.text_tables import INTERVAL_ENDS, interval_like, is_interval_end, metric_name, number

_LINKED = re.compile(r"(leaderboard|comparison)[A-Za-z0-9_]*\.(csv|md|pdf|png|svg)")


def results(metrics: Mapping[str, float], headlines: Sequence[str]) -> list[Result]:
    """The numbers of a run: headlines first, then tests, then others, and those of single heads last."""
    rest = sorted(
        (name for name in metrics if name not in headlines and not is_interval_end(name, metrics)),
        key=lambda name: (bool(HEAD.search(name)), not name.startswith("test/"), name),
    )
    first = [_result(name, metrics, "headline") for name in headlines if name in metrics]
    return first + [_result(name, metrics, "head" if HEAD.search(name) else "more") for name in rest]


def _result(name: str, metrics: Mapping[str, float], kind: str) -> Result:
    value = metrics[name]
    low, high = (metrics.get(name + end, math.nan) for end in INTERVAL_ENDS)
    known = math.isfinite(value) and math.isfinite(low) and math.isfinite(high)
    interval = " to ".join(interval_like(value, low, high)) if known else ""
    shown = number(value) if math.isfinite(value) else "not finite"
    return Result(name, metric_name(name), shown, interval, kind)


def comparison(found: board.Comparison, folder: Path) -> Comparison:
    """The report's comparison of runs: the leaderboard's tables and statements, and links to its files."""
    links = sorted(path.name for path in folder.iterdir() if _LINKED.fullmatch(path.name))
    return Comparison([_table(section) for section in found.sections], found.failures(), links)


def _table(section: Section) -> Table:
    header, rows = tabulate(section)
    best = [index for index, row in enumerate(section.rows) if row.verdict == "best"]
    below = header.index(INTERVAL) if INTERVAL in header else -1
    return Table(section.name, section.summaries, header, rows, header.index("n"), best, section.note, below)
