"""The tables of a test in a run's folder, read row by row: files from others may be large."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from pathlib import Path

from attention_lab.files.regular_files import read_lines
from attention_lab.files.run_files import CONFUSION_COLUMNS, CONFUSIONS, PREDICTION_COLUMNS, PREDICTIONS
from attention_lab.text_tables import unescape

MOST_ROWS = 1_000_000
"""Maximum number of rows of a table."""
SHOWN = 20
"""Maximum number of confusions, and of outputs, that are shown."""
_MOST = 1 << 28  # bytes of a table
_LONGEST = 1 << 24  # bytes of a row
_LONGEST_CELL = 400  # characters of a cell, as shown


def read_rows(path: Path, header: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows below the header, with their cells as they are in the file.

    Raises:
        OSError: the table is missing or unreadable, or larger than 256 MiB.
        ValueError: it is damaged: not UTF-8, another header, a row of another length, or too many rows.
    """
    for number, line in enumerate(read_lines(path, _MOST, _LONGEST)):
        cells = line.decode().split("\t", len(header))
        if len(cells) != len(header) or number > MOST_ROWS or (number == 0 and cells != list(header)):
            raise ValueError(f"{path} is not a table with the columns {', '.join(header)}")
        if number:
            yield cells


def read_confusions(folder: Path) -> list[list[str]]:
    """Confusions, their counts and an example of each, the most common first; empty without a table."""
    rows = read_rows(folder / CONFUSIONS, CONFUSION_COLUMNS)
    try:
        first = [_shown(row) for row in islice(rows, SHOWN)]
        for _ in rows:  # a table with a damaged row is not used
            pass
    except (OSError, ValueError):
        return []
    return first


def read_worst(folder: Path) -> list[list[str]]:
    """Input, output, reference and edits of the outputs with the most edits per symbol."""
    rows = read_rows(folder / PREDICTIONS, PREDICTION_COLUMNS)
    wrong = (row for row in rows if row[3].isascii() and row[3].isdigit() and int(row[3][:9]))
    ranked = ((-int(row[3][:9]) / _symbols(unescape(row[2])), _shown(row)) for row in wrong)
    try:
        worst = nsmallest(SHOWN, ranked, key=itemgetter(0))
    except (OSError, ValueError):
        return []
    return [row for _, row in worst]


def _symbols(reference: str) -> int:
    """The number of words if there are several, otherwise of characters."""
    return max(1, len(reference.split()) if " " in reference else len(reference))


def _shown(row: list[str]) -> list[str]:
    """The cells of a row, shortened to be shown; an escape takes up to four characters."""
    return [unescape(cell[: 4 * _LONGEST_CELL])[:_LONGEST_CELL] for cell in row]
