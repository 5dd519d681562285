"""Labelled time series as text: lines of `label<TAB>series`, or the .ts files of the UEA and UCR archives."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.console_text import counted, printable, quoted
from attention_lab.data.reading.files import (
    COLUMNS,
    LARGEST_FLOAT,
    LONGEST_ROW,
    blame,
    parse_number,
    read_rows,
)
from attention_lab.data.reading.vocabulary import check_symbols
from attention_lab.errors import LabError

Numbers = npt.NDArray[np.float64]
_MISSING = re.compile(r"^\s*,|,\s*,|,\s*$|\t *\t", re.ASCII)
_DECIMAL_COMMAS = re.compile(r"(?:[+-]?\d+,\d+(?:\s*;\s*|\s+|$))+", re.ASCII)
_SPACES_BETWEEN = re.compile(r"\d\s+[+-]?\d", re.ASCII)
_UNREAD = {
    "@timestamps true": "series with time stamps are not read: save their values alone",
    "@classlabel false": "the series have no labels",
    "@targetlabel true": "the series have numbers as targets instead of labels",
}
"""Declarations of .ts files that are not supported."""


class LabelledSeries(NamedTuple):
    """A time series, a row for each step and a column for each variable [L, d], and its label.

    Its `place` is `file:line`.
    """

    place: str
    label: str
    steps: Numbers

    @property
    def key(self) -> Hashable:
        """A value that is equal for series with equal steps."""
        return self.steps.shape, self.steps.tobytes()


def read_series(path: str) -> list[LabelledSeries]:
    """The time series of a file, all of them with equally many variables.

    If the name of the file ends in `.ts`, it has the format of the UEA and UCR archives. Otherwise a line is
    `label<TAB>series`, with the series as in `parse_steps`; in a file without semicolons, each number is a
    step, and NaN after the last one is padding, as in the .tsv files of the UCR archive.

    Raises:
        LabError: the file cannot be read, a line has another format or too long a label, a number is missing
            or not finite, or the steps have different numbers of variables.
    """
    text = read_rows(path, COLUMNS)
    lines = ((f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), start=1))
    rows = list(_archived(lines) if path.endswith(".ts") else _labelled(lines, one_each=";" not in text))
    if not rows:
        raise LabError(f"{path}: there are no series; in a .ts file, they are below the line @data")
    first, width = rows[0].place, rows[0].steps.shape[1]
    for row in rows:
        with blame(row.place):
            check_symbols([row.label])
        if row.steps.shape[1] != width:
            found = counted(row.steps.shape[1], "number")
            raise LabError(f"{row.place}: a step has {found}, but {width} in {first}")
    return rows


def parse_steps(text: str, *, one_each: bool = False) -> Numbers:
    """The steps of a series [L, d]: separated by semicolons, with commas or white space between numbers.

    Args:
        text: the series.
        one_each: whether each number is a step if there are no semicolons, instead of all of them one step.

    Raises:
        LabError: a number is missing or not finite, a step has more or fewer of them than the first, or the
            numbers seem to have decimal commas.
    """
    if _DECIMAL_COMMAS.fullmatch(text.strip()) and _SPACES_BETWEEN.search(text):
        one = re.split(r"[\s;]", text.strip(), maxsplit=1)[0]
        raise LabError(
            f"{quoted(one)} is one number with a decimal comma, or two numbers: write "
            f"{printable(one.replace(',', '.'), 60)}, or separate all numbers by spaces, "
            "and steps by semicolons"
        )
    ends = text.strip(" ")
    if ends[:1] == "\t" or ends[-1:] == "\t":
        raise LabError("a number is missing: the series begins or ends with a tab")
    if one_each and ";" not in text:
        return _matrix([text], "step").T
    return _matrix(text.strip().removesuffix(";").split(";"), "step")


def _labelled(lines: Iterable[tuple[str, str]], *, one_each: bool) -> Iterator[LabelledSeries]:
    """The series in lines of `label<TAB>series`; for `one_each` see `parse_steps`."""
    for place, line in lines:
        label, _, series = line.partition("\t")
        if not label.strip() or not series.strip():
            raise LabError(f"{place}: a line is label<TAB>series, such as walk<TAB>0.5 1.2 0.9")
        with blame(place):
            steps = parse_steps(_unpadded(series) if one_each else series, one_each=one_each)
        yield LabelledSeries(place, label.strip(), steps)


def _unpadded(series: str) -> str:
    """The series without the NaN values with which the UCR archive pads shorter series."""
    values = series.split("\t")
    while len(values) > 1 and values[-1].strip().lower() == "nan":
        values.pop()
    return "\t".join(values)


def _archived(lines: Iterable[tuple[str, str]]) -> Iterator[LabelledSeries]:
    """The series of a .ts file: a header that ends with `@data`, then lines `variable:variable:...:label`."""
    lines = ((place, line.strip()) for place, line in lines)
    lines = ((place, line) for place, line in lines if line and line[0] not in "#%")
    for place, line in lines:
        declared = " ".join(line.lower().split()[:2])
        if declared in _UNREAD:
            raise LabError(f"{place}: {_UNREAD[declared]}")
        if line[0] != "@":
            raise LabError(f"{place}: a .ts file begins with lines such as @data; series are below it")
        if declared == "@data":
            break
    for place, line in lines:
        *variables, label = line.split(":")
        if not variables or not label.strip():
            raise LabError(f"{place}: a line below @data is numbers:label, such as 0.5,1.2,0.9:walk")
        with blame(place):
            steps = _matrix(variables, "variable").T
        yield LabelledSeries(place, label.strip(), steps)


def _matrix(rows: Sequence[str], name: str) -> Numbers:
    """The numbers in rows of text; errors call a row `name`."""
    if sum(map(len, rows)) > LONGEST_ROW:
        raise LabError(f"the series is longer than {LONGEST_ROW:,} characters")
    fields: list[str] = []
    width = 0
    for number, row in enumerate(rows, start=1):
        if _MISSING.search(row):
            raise LabError(f"{name} {number}: a number is missing")
        found = row.replace(",", " ").split()
        if number == 1:
            width = len(found)
        if not found or len(found) != width:
            expected = f", but {name} 1 has {width}" if number > 1 else ""
            raise LabError(f"{name} {number} has {counted(len(found), 'number')}{expected}")
        fields += found
    return _numbers(fields).reshape(-1, width)


def _numbers(fields: Sequence[str]) -> Numbers:
    """The fields as finite numbers. Raises LabError at the first one that is not; see `parse_number`."""
    try:
        values = np.array(list(map(float, fields)))
        if (np.abs(values) < LARGEST_FLOAT).all() and not any("_" in field for field in fields):
            return values
    except ValueError:
        pass
    return np.array(list(map(parse_number, fields)))
