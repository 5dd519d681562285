"""The options that several data sets share: those of files, and those of sampling; without torch."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar, cast

from attention_lab.console_text import counted
from attention_lab.data.file_warnings.overlaps import split_names
from attention_lab.data.reading.files import Row, blame, read_columns, read_text
from attention_lab.data.reading.splitting import Splits, partition
from attention_lab.data.reading.vocabulary import LONGEST_SYMBOL, check_symbols
from attention_lab.data.specs.option_checks import check_at_least, check_fractions, check_seed
from attention_lab.errors import LabError

C = TypeVar("C", bound=Sequence[Any])
R = TypeVar("R")
_OVERHEAD = 16  # a short example costs as much as one with this many symbols


@dataclass(frozen=True)
class FileSpec:
    """Options of data that is read from three files, or from one file that is split.

    Attributes:
        train_file: path of the training split; give all three files, or none of them. To test a trained
            model, the test split alone is enough.
        validation_file: path of the validation split.
        test_file: path of the test split.
        file: path of a single file to split, instead of the three.
        fractions: shares of the splits of `file`, each above 0.
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
        check_fractions(self.fractions, every_split=True)

    @property
    def names(self) -> Splits[str]:
        """Names of the splits for messages."""
        if self.test_only:
            return Splits("", "", str(self.test_file))
        files = Splits(self.train_file, self.validation_file, self.test_file)
        return split_names(files.map(lambda own: str(own if self.file is None else self.file)))

    @property
    def test_only(self) -> bool:
        """Whether only the test split is given: enough to test a trained model, but not to train one."""
        return self.test_file is not None and not any((self.train_file, self.validation_file, self.file))

    def check_training_files(self) -> None:
        """Raise LabError if there are no files for training and validation."""
        if self.file is not None:
            return
        files = {f"data.{name}_file": getattr(self, f"{name}_file") for name in Splits._fields}
        missing = [name for name, file in files.items() if file is None]
        if missing:
            *first, last = missing
            named = f"{', '.join(first)} and {last} are" if first else f"{last} is"
            hint = ""
            if missing == ["data.validation_file"]:
                hint = (
                    f"; if you have no validation file, hold out part of the training file with data.file="
                    f"{self.train_file}, then test with stage=test data.test_file={self.test_file}"
                )
            raise LabError(f"{named} missing: give all three files, or a single data.file to split{hint}")

    def check_file(self, path: str) -> None:
        """Raise LabError if a file cannot be read, or does not have the format of this data."""
        read_text(path)

    def gather(self, read: Callable[[str], C], split: Callable[[C], Splits[C]]) -> Splits[C]:
        """Apply `read` to three files, or to a single one whose result `split` then splits.

        If the only file is that of the test split, the other splits are empty.

        Raises:
            LabError: options for files are missing, or one of the functions fails.
        """
        files = Splits(self.train_file, self.validation_file, self.test_file)
        if self.file is not None:
            if any(files):
                raise LabError(
                    "data.file replaces data.train_file, data.validation_file and data.test_file: "
                    "give either data.file or these"
                )
            return split(read(self.file))
        if self.test_only:
            test = read(str(self.test_file))
            empty = cast("C", test[:0])
            return Splits(empty, empty, test)
        self.check_training_files()
        return files.map(lambda file: read(str(file)))


@dataclass(frozen=True)
class ColumnsSpec(FileSpec):
    """Options of data that is read from columns, an example a line; a single file is split at random.

    Attributes:
        seed: seed of the split of `file`.
    """

    COLUMNS: ClassVar[Sequence[str]]
    """The names of the columns."""

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)

    def check_file(self, path: str) -> None:
        """See `FileSpec`."""
        read_columns(path, self.COLUMNS)

    def symbols(self, row: Row) -> Iterable[str]:
        """The symbols of a row, to check their lengths; none if each symbol is a single character."""
        return ()

    def read(self, key: Callable[[Row], Hashable]) -> Splits[list[Row]]:
        """The rows of each split; if a single file is split, rows with equal `key` stay together.

        Raises:
            LabError: options for files are missing, a symbol is too long, or `read_columns` or `partition`
                fails.
        """

        def rows_of(file: str) -> list[Row]:
            rows = read_columns(file, self.COLUMNS)
            for row in rows:
                if max(map(len, row[1:])) > LONGEST_SYMBOL:
                    with blame(row.place):
                        check_symbols(self.symbols(row))
            return rows

        return self.gather(rows_of, lambda rows: self.divided(rows, key))

    def known(self, rows: Splits[list[R]]) -> list[R]:
        """The rows whose labels a model knows: a single file has one set of labels, whatever its split."""
        return rows.train if self.file is None else [row for split in rows for row in split]

    def divided(self, rows: list[R], key: Callable[[R], Hashable]) -> Splits[list[R]]:
        """The rows of `file`, split at random; those with equal `key` stay together.

        Raises:
            LabError: `partition` fails.
        """
        with blame(str(self.file)):
            try:
                numbers = partition([key(row) for row in rows], self.fractions, self.seed)
            except LabError as error:
                raise LabError(f"{error}{self.why_few(rows)}") from None
        return numbers.map(lambda chosen: [rows[number] for number in chosen])

    def why_few(self, rows: Sequence[Any]) -> str:
        """The end of the error about a file with too few distinct rows to be split."""
        return f" ({counted(len(rows), 'line')} of {'<TAB>'.join(self.COLUMNS)})"


@dataclass(frozen=True)
class SampledSpec:
    """Options of data that is sampled with a seed instead of read from files.

    Attributes:
        train_size: number of training examples.
        validation_size: number of validation examples.
        test_size: number of test examples.
        seed: seed of the data, separate from the training seed.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong.
    """

    train_size: int = 10_000
    validation_size: int = 500
    test_size: int = 500
    _: KW_ONLY
    seed: int = 0
    batch_size: int | None = 64

    def __post_init__(self) -> None:
        check_at_least(
            1, train_size=self.train_size, validation_size=self.validation_size, test_size=self.test_size
        )
        check_seed(self.seed)

    @property
    def counts(self) -> Splits[int]:
        """Number of examples in each split."""
        return Splits(self.train_size, self.validation_size, self.test_size)

    @property
    def longest(self) -> int:
        """Number of symbols, or numbers, in the longest examples."""
        return 1

    @property
    def cost(self) -> int:
        """About how many symbols are sampled; time and memory grow with this number."""
        return sum(self.counts) * (_OVERHEAD + self.longest)

    @property
    def batch_cost(self) -> int:
        """About how many symbols the largest batch has."""
        largest = max(self.counts)
        return min(self.batch_size or largest, largest) * self.longest

    def check_held_out(self, distinct: int, options: str) -> None:
        """Check that validation and test leave enough of all `distinct` examples for training.

        Raises:
            LabError: they take more than half; the message suggests raising `options`.
        """
        if 2 * (self.validation_size + self.test_size) > distinct:
            raise LabError(
                f"data.validation_size={self.validation_size} and data.test_size={self.test_size} take more "
                f"than half of all {distinct} different examples; raise {options}, or lower the sizes"
            )
