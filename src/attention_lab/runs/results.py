"""Write a run's configuration and `metrics.json`, and print its results."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from attention_lab.config_parts import SEED
from attention_lab.console_text import LONGEST_MESSAGE, printable
from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.files.run_files import (
    BEST,
    CHECKPOINTS,
    CONFIG,
    ERRORS,
    HEATMAPS,
    LAST,
    METRICS,
    PROFILE,
    TRAINING,
)
from attention_lab.files.writing import remove, write_atomically
from attention_lab.runs.run_folder import read_choices, read_options
from attention_lab.runs.tested_options import CHOICES, OF_TRAINING, run_of_test
from attention_lab.text_tables import (
    ESCAPES,
    INTERVAL_ENDS,
    ConsoleTable,
    is_interval_end,
    metric_name,
    number,
    with_interval,
)

HEADLINES = (
    "test/",
    "train/loo_mse",
    "train/width",
    "parameters",
    "fit/seconds",
    "fit/steps",
    "fit/peak_memory_mb",
)
"""Prefixes of the metrics that are shown on the console, in that order; those of single heads are not."""
COUNTS = ("parameters", "fit/steps")
"""The metrics that are whole numbers."""
_LONGEST_CELL = 200
"""Maximum number of characters in a cell of the task's tables."""
_UNLIMITED = 10_000
"""Width of a console on which no table of such cells is cut off."""


def write_metrics(folder: Path, metrics: Mapping[str, float]) -> None:
    """Write `metrics.json` with sorted keys; JSON has no NaN and no infinity, so they are null."""
    values = {name: value if math.isfinite(value) else None for name, value in sorted(metrics.items())}
    write_atomically(folder / METRICS, json.dumps(values, indent=2) + "\n")


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write `config.yaml` with every value resolved."""
    write_atomically(folder / CONFIG, OmegaConf.to_yaml(OmegaConf.create(dict(config))))


def write_training_options(folder: Path, config: Mapping[str, Any]) -> None:
    """Write `training.yaml` for a test with this configuration, if the run that it tests is found.

    Tests can then be compared from their own folders alone.
    """
    run = run_of_test(config)
    try:
        options = read_options(run / CONFIG) if run is not None else {}
    except LabError:
        options = {}
    kept = {key: options[key] for key in (SEED, *OF_TRAINING) if key in options}
    if run is not None and (choices := read_choices(run)):
        kept[CHOICES] = choices
    if kept:
        write_atomically(folder / TRAINING, yaml.safe_dump(kept))
    else:
        remove(folder / TRAINING)


def print_start(description: str, folder: Path) -> None:
    """Print what is about to be trained, and where it is written."""
    console = Console()
    _print_line(console, "Training", description)
    _print_line(console, "Folder", short_path(folder))


def print_results(
    metrics: Mapping[str, float],
    tables: Sequence[ConsoleTable],
    folder: Path,
    views: Sequence[tuple[str, str] | None] = (),
) -> None:
    """Print the final metrics, the task's tables, the run's files, and how to view its logs.

    Args:
        metrics: the final metrics by name.
        tables: what the task shows.
        folder: the run's folder.
        views: each logger's name, and the command or address that shows its record.
    """
    console = Console()
    names = [
        name
        for headline in HEADLINES
        for name in metrics
        if name.startswith(headline) and "/head_" not in name and not is_interval_end(name, metrics)
    ]
    rows = [(_label(name), _value(name, metrics)) for name in names]
    interval = any(f"{name}{INTERVAL_ENDS[0]}" in metrics for name in names)
    value = "value [95% interval]" if interval else "value"
    numbers = ConsoleTable("Results", ("metric", value), rows, (1,))
    for one in (numbers, *tables):
        console.print(_rich_table(one, console))
    best = folder / CHECKPOINTS / BEST
    paths = {
        "Heatmaps": folder / HEATMAPS,
        "Errors": folder / ERRORS,
        "Metrics": folder / METRICS,
        "Profile": folder / PROFILE,
        "Checkpoint": best if best.exists() else best.with_name(LAST),
    }
    for name, path in paths.items():
        if path.exists():
            _print_line(console, name, short_path(path))
    for view in views:
        if view is not None:
            _print_line(console, *view)


def _rich_table(given: ConsoleTable, console: Console) -> Table:
    """The table for a console, with lines between rows if a cell has several lines."""
    table = Table(*given.columns, title=given.title)
    table.title_justify, table.title_style = "left", "bold"
    for column in given.right:
        table.columns[column].justify = "right"
    for row in given.rows:
        table.add_row(*map(_cell, row))
    table.show_lines = any(isinstance(cell, tuple) for row in given.rows for cell in row)
    if not given.right:  # a number shows where a row begins
        wanted = Measurement.get(console, console.options.update(max_width=_UNLIMITED), table)
        table.show_lines = table.show_lines or wanted.maximum > console.width
    return table


def _print_line(console: Console, name: str, text: str) -> None:
    """Print a path or a command after its name; nothing in it controls the console."""
    console.print(
        f"{name:<12} {printable(text, LONGEST_MESSAGE)}", soft_wrap=True, highlight=False, markup=False
    )


def _label(name: str) -> str:
    """The name of a metric in the table of results."""
    return f"test {metric_name(name)}" if name.startswith("test/") else metric_name(name)


def _value(name: str, metrics: Mapping[str, float]) -> str:
    """The value of a metric, with its interval if it has one."""
    if name in COUNTS:
        return f"{metrics[name]:,.0f}"
    low, high = (metrics.get(name + end) for end in INTERVAL_ENDS)
    if low is None or high is None:
        return number(metrics[name])
    return with_interval(metrics[name], low, high)


def _cell(text: str | tuple[str, ...]) -> str:
    if isinstance(text, tuple):
        return "\n".join(map(_cell, text))
    return escape(printable(text.translate(ESCAPES), _LONGEST_CELL))
