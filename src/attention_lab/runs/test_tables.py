"""The rows of a test's tables in a run's folder, read one by one: files from others may be large."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from attention_lab.reading import read_lines

MOST_ROWS = 1_000_000
"""Maximum number of rows of a table."""
_MOST = 1 << 28  # most bytes of a table
_LONGEST = 1 << 24  # most bytes of a row


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
