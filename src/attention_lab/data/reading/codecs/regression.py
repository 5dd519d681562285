"""The codec of regression data: columns of numbers to standardised inputs and targets, and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from attention_lab.console_text import counted
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines, numbers_line
from attention_lab.data.reading.files import parse_number
from attention_lab.data.reading.standardizing import fit_scale, scale
from attention_lab.errors import LabError


@dataclass(frozen=True)
class RegressionCodec(BaseCodec):
    """Columns of numbers, standardised as `(value - mean) / deviation`; the last one is the target."""

    KIND = "regression"
    inputs: list[str]
    target: str
    mean: list[float]
    deviation: list[float]

    @classmethod
    def of(cls, inputs: Sequence[str], target: str, train: Tensor, standardize: bool) -> Self:
        """The codec of `train` [N, d + 1]; a constant column is only shifted.

        Raises:
            LabError: the numbers of a column are too small or too large for float32.
        """
        # Errors are reported in the units of the data, even if the target is standardised.
        squared = [not standardize] * len(inputs) + [True]
        return cls(list(inputs), target, *fit_scale([*inputs, target], train, squared, standardize))

    def problem(self) -> str:
        """See `BaseCodec`."""
        columns = len(self.inputs) + 1
        if len(self.mean) == len(self.deviation) == columns:
            return ""
        return (
            f"needs a mean and a deviation for each of {columns} columns, "
            f"but has {len(self.mean)} and {len(self.deviation)}"
        )

    def standardize(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Standardised inputs [N, d] and targets [N, 1] in float32, of `values` [N, d + 1] in float64.

        Raises:
            LabError: a number is too large, in these units, for float32.
        """
        scaled = scale([*self.inputs, self.target], values, self.mean, self.deviation)
        return scaled[:, :-1].float(), scaled[:, -1:].float()

    def restore_inputs(self, inputs: Tensor) -> Tensor:
        """Inputs [.., d] in the units of the data."""
        return inputs * inputs.new_tensor(self.deviation[:-1]) + inputs.new_tensor(self.mean[:-1])

    def scale_targets(self, targets: Tensor) -> Tensor:
        """Targets or predictions [.., 1] minus the mean, in the units of the data.

        This keeps differences exact if the mean is much larger than the deviation, as with years.
        """
        return targets * self.deviation[-1]

    def restore_targets(self, targets: Tensor) -> Tensor:
        """Targets or predictions [.., 1] in the units of the data."""
        return targets * self.deviation[-1] + self.mean[-1]

    def as_line(self, given: object) -> str:
        """See `BaseCodec`; a row may also be an array [d]."""
        return numbers_line(given)

    def encode(self, lines: Sequence[str], first: int = 1) -> RegressionBatch:
        """Encode lines of numbers, one for each input, separated by commas or white space; targets are 0."""
        rows = encode_lines(lines, first, self._numbers)
        inputs, targets = self.standardize(torch.tensor(rows, dtype=torch.float64))
        return RegressionBatch(inputs, targets, torch.full([len(rows)], -1))

    def _numbers(self, line: str) -> list[float]:
        fields, names = line.replace(",", " ").split(), ", ".join(self.inputs)
        try:
            if len(fields) != len(self.inputs):
                needed = f"{len(self.inputs)} {'is' if len(self.inputs) == 1 else 'are'} needed"
                raise LabError(f"{counted(len(fields), 'number')}, but {needed}: {names}")
            return [*map(parse_number, fields), self.mean[-1]]
        except LabError:
            if {name.strip() for name in line.split(",")}.issuperset(self.inputs):
                raise LabError(f"a header: leave out this line, as each line is an input: {names}") from None
            raise

    def decode(self, prediction: Tensor) -> str:
        """One prediction [1] as text, in the units of the data."""
        return f"{self.restore_targets(prediction).item():.6g}"
