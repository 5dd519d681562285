"""Runs as one self-contained HTML file: results, curves, options, and attention in the tab's viewer.

`tensorboard_plugin/page.py` says how such a file is made and what it is allowed to do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from attention_lab.console_text import printable
from attention_lab.tensorboard_plugin import STATIC
from attention_lab.tensorboard_plugin.description import describe_header, read_description
from attention_lab.tensorboard_plugin.event_files import Point
from attention_lab.tensorboard_plugin.page import Blobs, Page, make_html, pack

POINTS = 1000
"""Maximum number of points of a curve."""
STEPS = 25
"""Maximum number of steps of an attention series."""
ROOM = 48 * 2**20
"""Maximum size of the records in bytes, before compression; if they are larger, fewer steps are kept."""

T = TypeVar("T")


class Heading(NamedTuple):
    """The top of the page.

    Attributes:
        title: the title.
        facts: the line below the title.
        command: the command line that produced the runs.
    """

    title: str
    facts: str = ""
    command: str = ""


class Result(NamedTuple):
    """A formatted number of a run.

    Attributes:
        metric: the name of the metric in files.
        name: its readable name.
        value: the number.
        interval: its 95% interval; empty without one.
        kind: `headline`, `more`, or `head` for the metric of a single head.
    """

    metric: str
    name: str
    value: str
    interval: str = ""
    kind: str = "more"


class Table(NamedTuple):
    """A table of compared settings.

    Attributes:
        name: what distinguishes it from the other tables; empty if there is only one.
        summaries: its result in words.
        header: the names of the columns.
        rows: the cells.
        numbers_from: index of the first column of numbers.
        best: indices of the best rows.
        note: how to read the table.
        below: index of a column to show below the previous one, such as its interval; -1 for none.
    """

    name: str
    summaries: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int
    best: Sequence[int]
    note: str
    below: int = -1


class Comparison(NamedTuple):
    """The comparison of runs.

    Attributes:
        tables: one table per data set.
        failures: why runs have no results.
        links: names of related files in the page's folder.
    """

    tables: Sequence[Table]
    failures: Sequence[str] = ()
    links: Sequence[str] = ()


@dataclass
class Run:
    """A run as the report shows it.

    Attributes:
        name: the name of the run.
        config: its options, with their values as text.
        results: its final numbers, the most important first.
        curves: numbers over steps, by name.
        records: header and body of each attention record, by tag and step.
        samples: input, output and expected output of the examples in the records.
        confusions: the most common errors of its test: `expected → written`, count and an example.
        worst: the worst outputs of its test: input, output, reference and edits.
        setting: the setting that it shares with runs of other seeds; empty if every setting has one run.
        data: the name of its data; empty if all runs were tested on the same.
    """

    name: str
    config: Mapping[str, str] = field(default_factory=dict)
    results: Sequence[Result] = ()
    curves: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    records: Mapping[str, Mapping[int, Blobs]] = field(default_factory=dict)
    samples: Sequence[Sequence[str]] = ()
    confusions: Sequence[Sequence[str]] = ()
    worst: Sequence[Sequence[str]] = ()
    setting: str = ""
    data: str = ""


def make_page(heading: Heading, runs: Sequence[Run], comparison: Comparison | None = None) -> str:
    """Make the HTML file."""
    kept, thinned = _within_room(runs)
    series = {run.name: records for run, records in zip(runs, kept, strict=True) if records}
    elements, places = pack(series)
    data = {
        **heading._asdict(),
        "comparison": _as_plain(comparison),
        "runs": [_facts(run) for run in runs],
        "tags": {
            name: {tag: {"steps": list(records), **_described(records)} for tag, records in tags.items()}
            for name, tags in series.items()
        },
        "records": places,
        "thinned": thinned,
    }
    parts = Page(
        printable(heading.title), STATIC / "report" / "report.js", ("viewer/viewer.css", "report/report.css")
    )
    return make_html(parts, data, elements)


def _as_plain(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {**comparison._asdict(), "tables": [table._asdict() for table in comparison.tables]}


def _described(records: Mapping[int, Blobs]) -> dict[str, Any]:
    """The text and the shape of the example of a series."""
    header, _ = next(iter(records.values()))
    return read_description(describe_header(header))


def _facts(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "setting": run.setting,
        "data": run.data,
        "samples": run.samples,
        "confusions": run.confusions,
        "worst": run.worst,
        "config": dict(run.config),
        "results": [result._asdict() for result in run.results],
        "curves": {
            name: points
            for name, curve in run.curves.items()
            if (points := spread([(step, value) for step, value in curve if math.isfinite(value)], POINTS))
        },
    }


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` evenly spaced items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _within_room(runs: Sequence[Run]) -> tuple[list[dict[str, dict[int, Blobs]]], str]:
    """The records to keep in the file, and a sentence about what is left out."""
    most = STEPS
    while True:
        kept = [{tag: _thinned(records, most) for tag, records in run.records.items()} for run in runs]
        blobs = (blobs for run in kept for records in run.values() for blobs in records.values())
        if most == 1 or sum(len(header) + len(body) for header, body in blobs) <= ROOM:
            break
        most //= 2
    logged = max((len(records) for run in runs for records in run.records.values()), default=0)
    return kept, f"{most} of the {logged} steps that were logged are in this file." if logged > most else ""


def _thinned(records: Mapping[int, Blobs], most: int) -> dict[int, Blobs]:
    return {step: records[step] for step in spread(sorted(records), most)}
