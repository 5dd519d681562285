"""Checked reading of the user's files: every error is reported in one line; bad lines are never skipped."""

import csv
import io
import math
import reprlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

from attention_lab.data.reading.overlaps import part_names
from attention_lab.data.reading.parts import Parts, check_fractions, partition
from attention_lab.errors import LabError
from attention_lab.reading import read_regular
from attention_lab.text_tables import counted

T = TypeVar("T")
C = TypeVar("C", bound=Sequence[Any])
T_co = TypeVar("T_co", covariant=True)

LARGEST = 3.4e38  # of float32
MOST = 1 << 30
"""Largest data file in bytes; its symbols take about ten times as much memory."""


def read_text(path: str) -> str:
    """The text of a UTF-8 file, without byte order mark or trailing blank lines, with LF line endings.

    Raises:
        LabError: the file is missing, unreadable, not a regular file, too large, empty or not UTF-8.
    """
    try:
        content = read_regular(path, MOST)
    except OSError as error:
        raise LabError(f"{path}: {error.strerror} (looked for it from {Path.cwd()})") from None
    return decode_text(content, path)


def decode_text(content: bytes, path: str) -> str:
    """Decode a file's content as text; see `read_text`. Raises LabError, naming `path`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise LabError(f"{path}:{line}: not UTF-8; save the file with the encoding UTF-8") from None
    if not text.strip():
        raise LabError(f"{path}: the file is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Prefix errors about a file's content with the file's name."""
    try:
        yield
    except LabError as error:
        raise LabError(f"{path}: {error}") from None


def parse_number(text: str, place: str) -> float:
    """`text` as a finite number that float32 can hold. Raises LabError, naming `place`."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if math.isfinite(value) and abs(value) >= LARGEST:
        raise LabError(
            f"{place}: {reprlib.repr(text)} is too large: give numbers below {LARGEST:.2g}, in a larger unit"
        )
    if not math.isfinite(value):
        raise LabError(f"{place}: {reprlib.repr(text)} should be a finite number, such as 1.5")
    return value


def read_csv(path: str, columns: Sequence[str]) -> list[list[float]]:
    """The numbers in `columns` of a comma-separated file with a header, one list for each row.

    Raises:
        LabError: `read_text` fails, a column is missing or occurs twice, a row has more or fewer fields than
            the header, a number is not finite, there are no rows, or a quote is not closed.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True, skipinitialspace=True)
    rows = []
    try:
        header = [name.strip() for name in next(reader)]
        for column in columns:
            if header.count(column) != 1:
                found = "twice or more" if column in header else "not"
                raise LabError(
                    f"{path}:1: column {column!r} is {found} in the header: {', '.join(header)}; "
                    "choose columns with data.inputs=[...] and data.target=..."
                )
        places = [(header.index(column), column) for column in columns]
        for fields in reader:
            place = f"{path}:{reader.line_num}"
            if len(fields) != len(header):
                raise LabError(f"{place}: {len(fields)} fields where the header has {len(header)}")
            rows.append([parse_number(fields[i], f"{place}: column {column!r}") for i, column in places])
    except csv.Error as error:
        raise LabError(f"{path}:{reader.line_num}: {error}; every quote should be closed") from None
    if not rows:
        raise LabError(f"{path}:2: no rows below the header")
    return rows


class Row(NamedTuple):
    """One line of a file of columns, and its `place` as `file:line`; `third` is empty for two columns."""

    place: str
    first: str
    second: str
    third: str = ""


def read_columns(path: str, names: Sequence[str]) -> list[Row]:
    """The rows of a file of two or three tab-separated columns, which are called `names`.

    Raises:
        LabError: `read_text` fails, or a line has too many or too few fields, or an empty field.
    """
    rows = []
    layout, needed = "<TAB>".join(names), "one is" if len(names) == 2 else "two are"
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        place, fields = f"{path}:{number}", line.split("\t")
        if not line.strip():
            raise LabError(f"{place}: the line is empty; remove it, or write {layout}")
        if len(fields) != len(names):
            raise LabError(f"{place}: {counted(len(fields) - 1, 'tab')} where {needed} needed: {layout}")
        for name, field in zip(names, fields, strict=True):
            if not field.strip():
                raise LabError(f"{place}: the {name} is empty; a line is {layout}")
        rows.append(Row(place, *fields))
    return rows


@dataclass(frozen=True)
class FileSpec:
    """Options of data that is read from three files, or from one file that is split.

    Attributes:
        train_file: path of the training part; give all three files, or none of them. To test a trained model,
            the test part alone is enough.
        validation_file: path of the validation part.
        test_file: path of the test part.
        file: path of a single file to split, instead of the three.
        fractions: shares of the parts of `file`, each above 0.
        batch_size: see `DataModule`.

    Raises:
        LabError: the fractions are not shares that sum to 1.
    """

    train_file: str | None = None
    validation_file: str | None = None
    test_file: str | None = None
    file: str | None = None
    fractions: Sequence[float] = (0.8, 0.1, 0.1)
    _: KW_ONLY
    batch_size: int | None = 64

    def __post_init__(self) -> None:
        check_fractions(self.fractions, every_part=True)

    @property
    def names(self) -> Parts[str]:
        """Names of the parts for messages."""
        if self.test_only:
            return Parts("", "", str(self.test_file))
        return part_names(Parts(self.train_file, self.validation_file, self.test_file), self.file)

    @property
    def test_only(self) -> bool:
        """Whether the only part is the test part: enough for a trained model, but not for training."""
        return self.test_file is not None and not any((self.train_file, self.validation_file, self.file))

    def check_training_files(self) -> None:
        """Raise LabError if there are no files for training and validation."""
        if self.file is None:
            self._check_files()

    def _check_files(self) -> None:
        files = {f"data.{name}_file": getattr(self, f"{name}_file") for name in Parts._fields}
        missing = [name for name, file in files.items() if file is None]
        if missing:
            raise LabError(f"{' and '.join(missing)} missing: give all three files, or data.file to be split")

    def check_file(self, path: str) -> None:
        """Raise LabError if a file cannot be read, or does not have the format of this data."""
        read_text(path)

    def gather(self, read: Callable[[str], C], part: Callable[[C], Parts[C]]) -> Parts[C]:
        """Apply `read` to three files, or to a single one whose result `part` then splits.

        If the only file is that of the test part, the other parts are empty.

        Raises:
            LabError: options for files are missing, or one of the functions fails.
        """
        files = Parts(self.train_file, self.validation_file, self.test_file)
        if self.file is not None:
            if any(files):
                raise LabError(
                    "data.file takes the place of data.train_file and the rest: give one or the other"
                )
            return part(read(self.file))
        if self.test_only:
            test = read(str(self.test_file))
            empty = cast("C", test[:0])
            return Parts(empty, empty, test)
        self._check_files()
        return files.map(lambda file: read(str(file)))


@dataclass(frozen=True)
class TextParts(FileSpec):
    """Options of data that is read line by line; a single file is split at random.

    Attributes:
        seed: seed of the split of `file`.
    """

    COLUMNS: ClassVar[Sequence[str]]
    """The names of the columns."""

    seed: int = 0

    def check_file(self, path: str) -> None:
        """See `FileSpec`."""
        read_columns(path, self.COLUMNS)

    def read(self, key: Callable[[Row], Hashable]) -> Parts[list[Row]]:
        """The rows of each part; if a single file is split, rows with equal `key` stay together.

        Raises:
            LabError: options for files are missing, or `read_columns` or `partition` fails.
        """

        def part(rows: list[Row]) -> Parts[list[Row]]:
            with naming(str(self.file)):
                numbers = partition([key(row) for row in rows], self.fractions, self.seed)
            return numbers.map(lambda chosen: [rows[number] for number in chosen])

        return self.gather(lambda file: read_columns(file, self.COLUMNS), part)


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
