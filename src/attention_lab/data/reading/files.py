"""Checked reading of the user's files: every error is reported in one line; bad lines are never skipped."""

import codecs
import csv
import io
import math
import re
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast

from attention_lab.console_text import counted, printable
from attention_lab.data.reading.vocabulary import check_accents
from attention_lab.errors import LabError
from attention_lab.files.regular_files import is_folder, read_regular
from attention_lab.machine import check_fits_in_memory

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LARGEST_FLOAT = 3.4e38  # of float32
LARGEST_FILE = 1 << 30
"""Largest data file in bytes."""
LONGEST_SIDE = 1024
"""Largest side in pixels of a labelled image, once it is scaled."""
MOST_PATCHES = 1 << 14
"""Maximum number of patches of a labelled image; each attends to all of them."""
MOST_SYMBOLS = 10_000
"""Maximum number of symbols of a line, unless an option allows more: time and memory grow as its square."""
LONGEST_ROW = 1 << 24
"""Maximum length of a row of numbers; until its fields are parsed, each character takes 40 bytes."""
MOST_ROWS = 20_000_000
"""Maximum number of lines of a file of columns; each takes about 230 bytes of memory besides its text."""
MOST_SHOWN = 50
"""Maximum number of columns that a message lists."""

_CONVERTIBLE = (".csv", ".json", ".jsonl")
"""Suffixes of text files that the guide shows how to convert to columns."""
_SAVE = "; save the file with the encoding UTF-8"
_OTHER_FORMATS = {
    codecs.BOM_UTF16_LE: f"UTF-16{_SAVE}",
    codecs.BOM_UTF16_BE: f"UTF-16{_SAVE}",
    b"\x1f\x8b": "compressed by gzip; unpack it first",
    b"PK\3\4": "a ZIP archive or a spreadsheet; save its text as a file of its own",
}
"""By the first bytes of a file: what it is instead of UTF-8, and what to do."""


class Memory(NamedTuple):
    """Approximate maximum of the bytes of memory that a data set takes for each byte and line of its file."""

    byte: int
    line: int = 0


CHARACTERS, WORDS, COLUMNS, NUMBERS = Memory(25), Memory(32), Memory(30, 900), Memory(10, 430)
"""Memory of a text that is split into characters or words, of a file of columns, and of one of numbers."""


def read_text(path: str, memory: Memory = CHARACTERS) -> str:
    """The text of a UTF-8 file, without byte order mark or trailing blank lines, with LF line endings.

    Raises:
        LabError: the file is missing, unreadable, not a regular file, too large for this program or for this
            machine's memory, empty or not UTF-8.
    """
    try:
        content = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}{looked_from(error, path)}") from None
    needed = memory.byte * len(content) + memory.line * content.count(b"\n")
    check_fits_in_memory(needed, f"{path}: reading it", "use only a part of it")
    return decode_text(content, path)


def looked_from(error: Exception, path: str | Path) -> str:
    """For a missing file, the folder that its path is relative to, as part of a message; otherwise empty."""
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return f" (looked for it from {Path.cwd()})" if missing and not Path(path).is_absolute() else ""


def decode_text(content: bytes, path: str) -> str:
    """Decode a file's content as text; see `read_text`. Raises LabError, naming `path`."""
    for start, found in _OTHER_FORMATS.items():
        if content.startswith(start):
            raise LabError(f"{path}: not UTF-8, but {found}")
    if content[:2].count(b"\0") == 1:  # half of a letter
        raise LabError(f"{path}: not UTF-8, but UTF-16{_SAVE}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise LabError(f"{path}:{line}: not UTF-8{_SAVE}") from None
    if not text.strip():
        raise LabError(f"{path}: the file is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def read_rows(path: str, memory: Memory) -> str:
    """`read_text` of a file of columns. Raises LabError if it has more than `MOST_ROWS` lines."""
    text = read_text(path, memory)
    if text.count("\n") >= MOST_ROWS:
        raise LabError(f"{path}: it has more than {MOST_ROWS:,} lines: use only a part of it")
    return text


@contextmanager
def blame(place: str) -> Iterator[None]:
    """Prefix errors with the place that they are about: a file, or a line of it."""
    try:
        yield
    except LabError as error:
        raise LabError(f"{place}: {error}") from None


def parse_number(text: str) -> float:
    """`text` as a finite number that float32 can hold. Raises LabError for any other text."""
    try:
        value = float("nan") if "_" in text else float(text)  # Python accepts 1_0 as 10
    except ValueError:
        value = float("nan")
    if math.isfinite(value) and abs(value) >= LARGEST_FLOAT:
        raise LabError(
            f"{reprlib.repr(text)} is too large: give numbers below {LARGEST_FLOAT:.2g}, in a larger unit"
        )
    if not math.isfinite(value):
        raise LabError(f"{reprlib.repr(text)} should be a finite number, such as 1.5")
    return value


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except LabError:
        return False
    return True


def _check_header(header: Sequence[str], columns: Sequence[str], path: str) -> None:
    """Raise LabError if a column is missing from the header or occurs in it twice."""
    for column in columns:
        if header.count(column) == 1:
            continue
        found = "twice or more" if column in header else "not"
        remedy = "choose columns with data.inputs=[...] and data.target=..."
        if len(header) == 1 and (other := re.search("[;\t]", header[0])):
            remedy = f"columns must be separated by commas, not {other[0]!r}"
        elif all(map(_is_number, header)):
            remedy = f"the first line must name the columns, such as {','.join(columns)}"
        more = ", ..." if len(header) > MOST_SHOWN else ""
        shown = printable(", ".join(header[:MOST_SHOWN]), 1000) + more
        raise LabError(f"{path}:1: column {column!r} is {found} in the header: {shown}; {remedy}")


def read_csv(path: str, columns: Sequence[str]) -> list[list[float]]:
    """The numbers in `columns` of a comma-separated file with a header, one list for each row.

    Raises:
        LabError: `read_text` fails, a column is missing or occurs twice, a row has more or fewer fields than
            the header, a number is not finite, there are no rows, or a quote is not closed.
    """
    below = _split_rows(read_rows(path, NUMBERS), path)
    header = [name.strip() for name in next(below)[1]]
    _check_header(header, columns, path)
    numbers = [(header.index(column), column) for column in columns]
    rows: list[list[float]] = []
    for place, fields in below:
        if len(fields) != len(header):
            raise LabError(f"{place}: {counted(len(fields), 'field')}, but the header has {len(header)}")
        rows.append([])
        for number, column in numbers:
            try:
                rows[-1].append(parse_number(fields[number]))
            except LabError as error:
                raise LabError(f"{place}: column {column!r}: {error}") from None
    if not rows:
        raise LabError(f"{path}:2: no rows below the header")
    return rows


def _split_rows(text: str, path: str) -> Iterator[tuple[str, list[str]]]:
    """The fields of each row of a comma-separated file, with the `file:line` of its last line.

    Raises:
        LabError: a row or a field is too long, or a quote is not closed.
    """
    left = LONGEST_ROW

    def lines() -> Iterator[str]:
        """The lines, several of which may form one row, up to `left` characters in all."""
        nonlocal left
        for number, line in enumerate(io.StringIO(text, newline=""), start=1):
            left -= len(line)
            if left < 0:
                raise LabError(f"{path}:{number}: the row is longer than {LONGEST_ROW:,} characters")
            yield line

    reader = csv.reader(lines(), strict=True, skipinitialspace=True)
    try:
        for fields in reader:
            yield f"{path}:{reader.line_num}", fields
            left = LONGEST_ROW
    except csv.Error as error:
        problem = f"{error}; close every quote"
        if "field limit" in str(error):
            most = f"{csv.field_size_limit():,} characters"
            problem = f"a field has more than {most}: shorten it, or close its quote"
        raise LabError(f"{path}:{reader.line_num}: {problem}") from None


class Row(NamedTuple):
    """One line of a file of columns, and its `place` as `file:line`; `third` is empty if there are two."""

    place: str
    first: str
    second: str
    third: str = ""

    @property
    def file(self) -> str:
        """The file that the line is in."""
        return self.place.rpartition(":")[0]


def read_columns(path: str, names: Sequence[str]) -> list[Row]:
    """The rows of a file of two or three tab-separated columns, which are called `names`.

    Raises:
        LabError: `read_text` fails, or a line has too many or too few fields, an empty field, or too
            many accents in a row.
    """
    rows = []
    layout, needed = "<TAB>".join(names), "one is" if len(names) == 2 else "two are"
    if "image" in names and is_folder(path):
        advice = f"list its images in a file of {layout} lines, as docs/guides/own-data.md shows"
        raise LabError(f"{path}: it is a directory, not a regular file: {advice}")
    for number, line in enumerate(read_rows(path, COLUMNS).split("\n"), start=1):
        place, fields = f"{path}:{number}", line.split("\t")
        if not line.strip():
            raise LabError(f"{place}: the line is empty; remove it, or write {layout}")
        if len(fields) != len(names):
            more = _without_more_columns(fields, names, number) if len(fields) > len(names) else ""
            if len(fields) == 1 and (kind := Path(path).suffix.lower()) in _CONVERTIBLE:
                more = f"; docs/guides/own-data.md shows how to convert a {kind} file"
            raise LabError(f"{place}: {counted(len(fields) - 1, 'tab')}, but {needed} needed: {layout}{more}")
        for name, field in zip(names, fields, strict=True):
            if not field.strip():
                is_are = "are" if name == "tags" else "is"
                raise LabError(f"{place}: the {name} {is_are} empty; a line is {layout}")
        try:  # instead of `blame`, which would double the time for a short line
            check_accents(line)
        except LabError as error:
            raise LabError(f"{place}: {error}") from None
        rows.append(Row(place, *fields))
    return rows


def _without_more_columns(fields: Sequence[str], names: Sequence[str], line: int) -> str:
    """What to do about a line of a file that has more fields than columns."""
    if line > 1:  # the lines above have as many as needed
        return "; write a space for a tab within a column"
    if not fields[0].strip():  # pandas writes its index first, without a name
        return "; cut -f2- leaves out the first column"
    return f"; cut -f1-{len(names)} keeps the first columns"


class ReadsFiles(Protocol[T_co]):
    """The options of a data set that reads the user's files."""

    def load(self) -> T_co:
        """Read the files. Raises LabError, naming the file and the line."""


_ahead: list[tuple[object, object]] = []


def read_ahead(spec: ReadsFiles[object]) -> None:
    """Read the files of a data set before torch is imported, so that mistakes in them are found early.

    The content is kept for the first call of `read_once` with equal options.

    Raises:
        LabError: the files cannot be read.
    """
    _ahead.clear()
    _ahead.append((spec, spec.load()))


def read_once(spec: ReadsFiles[T]) -> T:
    """The content of a data set's files, reusing what `read_ahead` has read."""
    while _ahead:
        known, content = _ahead.pop()
        if known == spec:
            return cast("T", content)
    return spec.load()
