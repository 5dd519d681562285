"""The options of regression data in tables, and the reading of CSV files, without torch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attention_lab.data.reading.files import blame, read_csv
from attention_lab.data.reading.splitting import Splits, partition
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.option_checks import check_fractions, check_seed
from attention_lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The options of `Diabetes`, and of every table.

    Attributes:
        fractions: shares of the training, validation and test split.
        standardize: whether to scale columns to mean 0 and standard deviation 1 on the training split.
        seed: seed of the split.
        batch_size: see `DataModule`.

    Raises:
        LabError: the fractions are not shares that sum to 1.
    """

    fractions: Sequence[float] = (0.8, 0.1, 0.1)
    standardize: bool = True
    seed: int = 0
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_fractions(self.fractions)
        check_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class CSVSpec(TableSpec, FileSpec):
    """The options of `CSVRegression`: those of a table, and its files.

    Attributes:
        inputs: names of the input columns; YAML reads one such as 2024 as a number.
        target: name of the column to predict.

    Raises:
        LabError: the columns are not at least one input and a target, or see `TableSpec`.
    """

    inputs: Sequence[str | int] = ("x",)
    target: str | int = "y"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inputs, Iterable) or not self.columns:
            raise LabError(f"data.inputs={self.inputs}: name at least one column of the file")
        if str(self.target) in self.columns:
            raise LabError(f"data.target={self.target} is among data.inputs: remove it there")
        if len({*self.columns}) < len(self.columns):
            raise LabError(f"data.inputs={self.columns}: name each column once")

    @property
    def columns(self) -> list[str]:
        """Names of the input columns."""
        return [self.inputs] if isinstance(self.inputs, str) else [str(name) for name in self.inputs]

    def load(self) -> Splits[list[list[float]]]:
        """Read the files: the numbers of each row, the target last."""
        return self.gather(lambda file: read_csv(file, [*self.columns, str(self.target)]), self._divided)

    def _divided(self, rows: list[list[float]]) -> Splits[list[list[float]]]:
        with blame(str(self.file)):
            numbers = partition(range(len(rows)), self.fractions, self.seed)
        return numbers.map(lambda split: [rows[number] for number in split])
