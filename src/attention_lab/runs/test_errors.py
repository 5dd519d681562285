"""Errors of a test, from the tables in a run's folder: the most common errors and the worst outputs."""

from heapq import nsmallest
from itertools import islice
from pathlib import Path

from attention_lab.run_files import CONFUSION_COLUMNS, CONFUSIONS, PREDICTION_COLUMNS, PREDICTIONS
from attention_lab.runs.test_tables import read_rows
from attention_lab.text_tables import unescape

SHOWN = 20
"""Largest number of rows shown."""
_LONGEST = 400  # most characters of a cell


def read_confusions(folder: Path) -> list[list[str]]:
    """Confusions, their counts and an example of each, the most common first; empty without a table."""
    rows = read_rows(folder / CONFUSIONS, CONFUSION_COLUMNS)
    try:
        first = list(islice(rows, SHOWN))
        for _ in rows:  # a table with a damaged row is not used
            pass
    except (OSError, ValueError):
        return []
    return [_shown(row) for row in first]


def read_worst(folder: Path) -> list[list[str]]:
    """Input, output, reference and edits of the outputs with the most edits per symbol."""
    rows = read_rows(folder / PREDICTIONS, PREDICTION_COLUMNS)
    wrong = (row for row in rows if row[3].isascii() and row[3].isdigit() and int(row[3][:9]))
    try:
        worst = nsmallest(SHOWN, wrong, key=lambda row: -int(row[3][:9]) / _symbols(unescape(row[2])))
    except (OSError, ValueError):
        return []
    return [_shown(row) for row in worst]


def _symbols(reference: str) -> int:
    """The number of words if there are several, otherwise of characters."""
    return max(1, len(reference.split()) if " " in reference else len(reference))


def _shown(row: list[str]) -> list[str]:
    return [unescape(cell)[:_LONGEST] for cell in row]
