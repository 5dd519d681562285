"""Errors of a test, from the tables in a run's folder: the most common errors and the worst outputs."""

from pathlib import Path

from attention_lab.reading import read_regular
from attention_lab.text_tables import unescape

SHOWN = 20
"""Largest number of rows shown."""
_MOST = 1 << 28  # most bytes of a table
_PREDICTIONS = ["source", "output", "reference", "edits"]
_CONFUSIONS = ["expected and written", "times", "example"]
_LONGEST = 400  # most characters of a cell


def read_confusions(folder: Path) -> list[list[str]]:
    """Confusions, their counts and an example of each, the most common first; empty without a table."""
    return [
        [cell[:_LONGEST] for cell in row] for row in _rows(folder / "confusions.tsv", _CONFUSIONS)[:SHOWN]
    ]


def read_worst(folder: Path) -> list[list[str]]:
    """Input, output, reference and edits of the outputs with the most edits per symbol."""
    rows = _rows(folder / "predictions.tsv", _PREDICTIONS)
    wrong = [row for row in rows if row[3].isascii() and row[3].isdigit() and int(row[3][:9])]
    worst = sorted(wrong, key=lambda row: -int(row[3][:9]) / _symbols(row[2]))[:SHOWN]
    return [[cell[:_LONGEST] for cell in row] for row in worst]


def _symbols(reference: str) -> int:
    """The number of words if there are several, otherwise of characters."""
    return max(1, len(reference.split()) if " " in reference else len(reference))


def _rows(path: Path, header: list[str]) -> list[list[str]]:
    """The rows of a table as text; none if it is missing or damaged."""
    try:
        lines = read_regular(path, _MOST).decode().removesuffix("\n").split("\n")
    except (OSError, ValueError):
        return []
    first, *rows = (line.split("\t") for line in lines)
    if first != header or any(len(row) != len(header) for row in rows):
        return []
    return [[unescape(cell) for cell in row] for row in rows]
