"""The results of a search: a table of its trials, and the best trial as an experiment."""

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attention_lab.commandline.overrides import as_text, part_of, quote, read_value
from attention_lab.config_parts import SETTING
from attention_lab.console_text import console_message, counted, printable
from attention_lab.files.writing import write_atomically
from attention_lab.search.space import APART, Space, short
from attention_lab.search.study import REASON, SharedStudy, state_name
from attention_lab.text_tables import csv_text, metric_name, number

ORDER = ("complete", "pruned", "failed", "killed", "running", "waiting")
"""The states of trials, in the order of the table."""
MOST_SHOWN = 1000
"""The most trials that are shown on the console; `trials.csv` has all."""


def report(config: DictConfig, study: SharedStudy, space: Space, folder: Path) -> None:
    """Print and write the table of all trials, including those of other processes, and the best trial."""
    maximize = study.study.direction == StudyDirection.MAXIMIZE
    trials = sorted(study.trials(), key=lambda trial: _rank(trial, maximize))
    rows = [table_row(trial, space) for trial in trials]
    counts = Counter(row[1] for row in rows)
    title = ", ".join(f"{counts[state]} {state}" for state in ORDER if counts[state])
    header = ["trial", "state", study.metric, *space.searched]
    named = ["trial", "state", metric_name(study.metric), *map(_last, space.searched)]
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_trials(console, f"{study.study.study_name}: {title}", named, rows)
    write_atomically(folder / "trials.csv", csv_text([[*header, "why"], *rows]))
    print(console_message("Trials", folder / "trials.csv"))
    if not counts["complete"]:
        return
    best = trials[0]
    path = folder / "experiment" / "best.yaml"
    lines, left = as_experiment(config, space, best)
    found = f"{metric_name(study.metric)} {number(float(best.values[0]))}"
    head = f"# {study.study.study_name}: trial {best.number} of {len(trials)}, {found}\n"
    write_atomically(path, f"# @package _global_\n{head}{lines}")
    command = [
        "python",
        "train.py",
        "--config-dir",
        str(folder),
        "experiment=best",
        *_own_folders(config),
        *left,
    ]
    print(console_message("Best", f"trial {best.number}, {found}: {folder / f'trial_{best.number}'}"))
    print(console_message("To train it", shlex.join(command)), flush=True)


def _own_folders(config: DictConfig) -> list[str]:
    """The argument that adds the user's own folders of configurations; `--config-dir` can name only one."""
    sources = config.hydra.runtime.config_sources
    own = [quote(source.path) for source in sources if "command-line" in source.provider]
    return [f"hydra.searchpath=[{','.join(own)}]"] if own else []


def print_trials(console: Console, title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of the first trials, and why those of them that failed did.

    On a narrow console the table has no lines, and long words go on in the next line.
    """
    shown = rows[:MOST_SHOWN]
    table = Table(*map(escape, names), title=escape(title), title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    for row in shown:
        table.add_row(*map(escape, row[: len(names)]))
    if console.measure(table).maximum >= console.width:
        table.box, table.pad_edge, table.padding = None, False, (0, 1, 0, 0)
    console.print(table)
    lines = [f"failed: trial {row[0]}: {row[-1]}" for row in shown if row[1] == "failed"]
    if len(rows) > len(shown):
        lines.append(f"and {counted(len(rows) - len(shown), 'trial')} more, in the file below")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _last(name: str) -> str:
    """The last part of an option's name."""
    return name.rpartition("/")[2].rpartition(".")[2]


def _rank(trial: FrozenTrial, maximize: bool) -> tuple[int, float, int]:
    """A sort key: by state, then the best values first, then by number."""
    state = state_name(trial)
    value = float(trial.values[0]) if state == "complete" else 0.0
    return ORDER.index(state), -value if maximize else value, trial.number


def table_row(trial: FrozenTrial, space: Space) -> list[str]:
    """The number, state and value of a trial, its searched options, and why it has no result."""
    state = state_name(trial)
    # A pruned trial has a value too: the last one before it was stopped.
    value = number(float(trial.values[0])) if trial.values else ""
    shown = [printable(short(trial.params.get(key, ""))) for key in space.searched]
    reason = "" if state == "complete" else printable(str(trial.user_attrs.get(REASON, "")), 1000)
    return [str(trial.number), state, value, *shown, reason]


def as_experiment(config: DictConfig, space: Space, best: FrozenTrial) -> tuple[str, list[str]]:
    """The best trial as a file for `conf/experiment`, and the arguments that must stay on the command line.

    The file holds the group choices and the given options, without those that only the search needs.
    """
    choices = {group: str(config.hydra.runtime.choices[group]) for group in SETTING}
    base = config.hydra.runtime.choices.get("experiment")
    values = OmegaConf.create()
    added: list[dict[str, str]] = []
    left: list[str] = []
    for key, option in {**space.fixed, **space.searched}.items():
        if part_of(key) in (*APART, "experiment"):
            continue
        value = read_value(as_text(best.params[key])) if key in space.searched else option.value()
        if option.is_delete():
            left.append(str(option.input_line))
        elif key in choices:
            choices[key] = str(value)
        elif key in config.hydra.runtime.choices:
            verb = "" if option.is_add() else "override "
            added.append({f"{verb}/{key}": str(value)})
        else:
            OmegaConf.update(values, key, value, force_add=True)
    own = [{f"override /{key}": choice} for key, choice in choices.items()]
    before = [str(base)] if base not in (None, "null") else []
    text = OmegaConf.to_yaml(OmegaConf.create({"defaults": [*before, *own, *added, "_self_"]}))
    return text + (OmegaConf.to_yaml(values) if values else ""), left
