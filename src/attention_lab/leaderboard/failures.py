"""Runs without results: each reason once, with the runs it applies to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from attention_lab.console_text import printable
from attention_lab.text_tables import markdown_code

_NAMED = 3  # largest number of runs that a line names


@dataclass(frozen=True)
class Failure:
    """A run without results: how it ended, in one word, and why."""

    kind: str
    label: str
    folder: str
    reason: str


def _shared_reason(failure: Failure) -> str:
    """The reason, with `*` in place of the run's folder in paths, so that it is the same for other runs."""
    return failure.reason.replace(f"/{PurePath(failure.folder).name}/", "/*/")


def _groups(failures: Sequence[Failure]) -> list[tuple[str, list[Failure]]]:
    """The failures of each kind and reason, in order of first appearance, after their reason."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for one in failures:
        found.setdefault((one.kind, _shared_reason(one)), []).append(one)
    return [(group[0].reason if len(group) == 1 else shared, group) for (_, shared), group in found.items()]


def describe_failures(failures: Sequence[Failure], total: int, noun: str = "run") -> list[str]:
    """One line for each reason, such as "2 of 4 runs failed (seed=1, seed=2): no such file".

    Args:
        failures: the runs without results.
        total: the total number of runs.
        noun: what to call a run.
    """
    lines = []
    for reason, group in _groups(failures):
        count = f"{len(group):,} of {total:,} {noun}{'' if total == 1 else 's'}"
        named = len(group) <= _NAMED and len(group) < total
        labels = f" ({', '.join(one.label for one in group)})" if named else ""
        lines.append(printable(f"{count} {group[0].kind}{labels}: {reason}", 1000))
    return lines


def list_failures(failures: Sequence[Failure]) -> str:
    """The failures as a Markdown list, with the folders of the runs."""
    items = []
    for reason, group in _groups(failures):
        items.append(f"- {len(group):,} {group[0].kind}: {markdown_code(reason)}")
        items += [f"    - {markdown_code(one.label)} in {markdown_code(one.folder)}" for one in group]
    return "\n".join(items)
