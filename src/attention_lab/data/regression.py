"""Data sets for regression: Sine, CSVRegression and Diabetes."""

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.constructor_options import options_of
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.reading.batches import Batch, RegressionBatch
from attention_lab.data.reading.codecs import RegressionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import RegressionSplit, Split
from attention_lab.data.reading.files import blame, read_once
from attention_lab.data.reading.returned_checks import require
from attention_lab.data.reading.splitting import Splits, partition
from attention_lab.data.specs.sampled import SineSpec
from attention_lab.data.specs.tables import CSVSpec, TableSpec
from attention_lab.errors import LabError
from attention_lab.sizes import RegressionSizes


class Table(NamedTuple):
    """Column names, and the rows of each split [N, inputs + 1] in float64, the target last."""

    inputs: list[str]
    target: str
    rows: Splits[Tensor]


class RegressionData(DataModule):
    """Data for regression. A split without rows stands for the training set, evaluated leave-one-out."""

    codec: RegressionCodec
    sizes: RegressionSizes

    def __init__(self, standardize: bool, batch_size: int | None) -> None:
        super().__init__(batch_size)
        self.standardize = standardize

    @abstractmethod
    def table(self) -> Table:
        """Read or sample the data."""

    def truth(self, inputs: Tensor) -> Tensor | None:
        """The expected targets `[N]` of inputs `[N, d]` in the data's units; None if unknown."""
        return None

    def blame_file(self) -> AbstractContextManager[None]:
        """A context that prefixes errors with the name of the file, if there is one."""
        return nullcontext()

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        inputs, target, rows = self._checked(self.table())
        with self.blame_file():
            return self._build(inputs, target, rows)

    def _checked(self, returned: object) -> Table:
        """The table in float64. Raises LabError if a user-defined class has returned anything but a table."""
        inputs, target, rows = require(self, "table", returned, Table, "Table(inputs, target, rows)")
        name = f"{type(self).__name__}.table"
        if not isinstance(inputs, list) or not all(isinstance(one, str) for one in [*inputs, target]):
            raise LabError(f"{name} must give a list of the names of the inputs, and the name of the target")
        columns = len(inputs) + 1
        for split in require(self, "table", rows, Splits, "Splits as the rows of its Table"):
            shape = list(split.shape) if isinstance(split, Tensor) else kind_of(split)
            if not isinstance(split, Tensor) or split.dim() != 2 or split.shape[1] != columns:
                raise LabError(
                    f"{name} must give tensors [N, {columns}] of rows, the target last, not {shape}"
                )
            if split.is_complex():
                raise LabError(f"{name} must give real numbers, not {split.dtype}")
        tested_alone = len(rows.test) and self.given(RegressionCodec)
        if not len(rows.train) and not tested_alone:
            raise LabError("there are no examples for training")
        return Table(inputs, target, rows.map(lambda split: split.detach().double()))

    def _build(self, inputs: list[str], target: str, rows: Splits[Tensor]) -> Splits[Split]:
        codec = self.given(RegressionCodec) or RegressionCodec.of(
            inputs, target, rows.train, self.standardize
        )
        if (codec.inputs, codec.target) != (inputs, target):
            raise LabError(
                f"the model reads {', '.join(codec.inputs)} and predicts {codec.target}; "
                f"this data has {', '.join(inputs)} and {target}"
            )
        self.codec = codec
        self.sizes = RegressionSizes(features=len(inputs), targets=1, samples=len(rows.train))
        train = RegressionBatch(*codec.standardize(rows.train), torch.arange(len(rows.train)))
        self._train = train

        def evaluation(split: Tensor) -> RegressionSplit:
            if not len(split):
                return RegressionSplit(train)
            return RegressionSplit(RegressionBatch(*codec.standardize(split), torch.full([len(split)], -1)))

        return Splits(RegressionSplit(train), evaluation(rows.validation), evaluation(rows.test))

    def training_set(self) -> RegressionBatch:
        """The entire training split, which kernel regression memorises."""
        self.setup()
        return self._train

    def probe(self, size: int) -> Batch:
        """The complete validation split for any `size`: its weights form one heatmap, its fit one curve.

        It is the test split if only that is given.
        """
        split = self.splits.validation if len(self.splits.validation) else self.splits.test
        return split[torch.arange(len(split))]


class Sine(RegressionData):
    """`y = 2 sin x + x^0.8 + noise`, x uniform in (0, 5), Gaussian noise, rows in the order of x.

    Args:
        options: see `SineSpec`.
    """

    @options_of(SineSpec)
    def __init__(self, spec: SineSpec) -> None:
        super().__init__(standardize=False, batch_size=spec.batch_size)
        self.spec = spec

    def truth(self, inputs: Tensor) -> Tensor:
        """`2 sin x + x^0.8`."""
        x = inputs[:, 0].clamp_min(0)
        return 2 * x.sin() + x**0.8

    def table(self) -> Table:
        """Sample the splits."""
        generator = torch.Generator().manual_seed(self.spec.seed)

        def draw(count: int) -> Tensor:
            x = 5 * torch.rand(count, dtype=torch.float64, generator=generator).sort().values
            noise = self.spec.noise * torch.randn(count, dtype=torch.float64, generator=generator)
            return torch.stack([x, self.truth(x.unsqueeze(1)) + noise], dim=1)

        return Table(["x"], "y", self.spec.counts.map(draw))


class CSVRegression(RegressionData):
    """Numbers from comma-separated files (UTF-8) with a header: one for each split, or a single one.

    The rows of a single file are split at random. A split whose fraction is 0 stands for the training set,
    evaluated leave-one-out: `fractions=[1, 0, 0]` trains on all rows and predicts each from all the others.

    Args:
        options: see `CSVSpec`.
    """

    @options_of(CSVSpec)
    def __init__(self, spec: CSVSpec) -> None:
        super().__init__(spec.standardize, spec.batch_size)
        self.files = spec

    def blame_file(self) -> AbstractContextManager[None]:
        """See `RegressionData`."""
        return blame(str(self.files.file or self.files.train_file or self.files.test_file))

    def table(self) -> Table:
        """Read the files."""
        inputs, target = self.files.columns, str(self.files.target)
        width = len(inputs) + 1
        splits = read_once(self.files).map(
            lambda rows: torch.tensor(rows, dtype=torch.float64).reshape(len(rows), width)
        )
        keyed = splits.map(lambda split: [Keyed(tuple(row[:-1]), row[-1]) for row in split.tolist()])
        self.shared = shared_examples(keyed, self.files.names, target)
        return Table(inputs, target, splits)


class Diabetes(RegressionData):
    """Progression of diabetes one year on, from ten measurements of 442 patients (scikit-learn).

    B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle regression", Annals of Statistics 32, 2004.

    Args:
        options: see `TableSpec`.
    """

    @options_of(TableSpec)
    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec.standardize, spec.batch_size)
        self.spec = spec

    def table(self) -> Table:
        """Load it from scikit-learn."""
        from sklearn.datasets import load_diabetes  # slow to import

        source = load_diabetes(scaled=False)
        rows = torch.cat([torch.tensor(source.data), torch.tensor(source.target).unsqueeze(1)], dim=1)
        numbers = partition(range(len(rows)), self.spec.fractions, self.spec.seed)
        return Table(list(source.feature_names), "progression", numbers.map(lambda split: rows[split]))
