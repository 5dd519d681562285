"""The codec of labelled time series."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from attention_lab.console_text import counted
from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.data.reading.codecs.base import encode_lines, numbers_line
from attention_lab.data.reading.codecs.classification import ClassificationCodec
from attention_lab.data.reading.ragged import RaggedVectors, check_sequences
from attention_lab.data.reading.series_files import parse_steps
from attention_lab.data.reading.standardizing import fit_scale, scale
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes


@dataclass(frozen=True)
class SeriesCodec(ClassificationCodec):
    """Labels, and time series of 1 to `length` steps of `features` numbers each, the variables.

    Variables are standardised as `(value - mean) / deviation`.
    """

    KIND = "series"
    mean: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls, labels: Sequence[str], train: Sequence[Tensor], length: int, *, standardize: bool = True
    ) -> Self:
        """The codec of the series [L, d] of the training split; a constant is only shifted.

        Raises:
            LabError: there are no steps, they have different d, or the numbers of a variable are not finite,
                or too small or too large for float32.
        """
        check_sequences(train, "SeriesCodec.of")
        if not any(map(len, train)):
            raise LabError("SeriesCodec.of needs at least one step")
        steps = torch.cat(list(train)).double()
        features = steps.shape[1]
        mean, deviation = fit_scale(_names(features), steps, [not standardize] * features, standardize)
        return cls(list(labels), length, features=features, mean=mean, deviation=deviation)

    @property
    def sizes(self) -> ClassificationSizes:
        """The number of classes, the size of a step and the largest number of steps."""
        return replace(super().sizes, variable_length=True)

    def problem(self) -> str:
        """See `BaseCodec`."""
        if not self.features or {len(self.mean), len(self.deviation)} != {self.features}:
            found = f"{len(self.mean)} and {len(self.deviation)}"
            return f"needs a mean and a deviation for each of {self.features or 0} variables, but has {found}"
        if min(self.deviation) <= 0:
            return "has a deviation that is not above 0"
        if self.answers != 1:
            return f"has {self.answers} answers, but a time series has one label"
        return super().problem()

    def as_line(self, given: object) -> str:
        """See `BaseCodec`; a series may also be an array [L, d], or [L] of a single variable."""
        return numbers_line(given, "; ")

    def encode(self, lines: Sequence[str], first: int = 1) -> ClassificationBatch:
        """Encode lines of numbers; see `parse_steps`. Labels are -1."""
        rows = encode_lines(lines, first, self._series)
        vectors = RaggedVectors(rows)
        every = torch.arange(len(rows))
        return ClassificationBatch(vectors[every], vectors.lengths, torch.full([len(rows)], -1))

    def standardize(self, steps: Tensor) -> Tensor:
        """Standardised steps [L, d] in float32.

        Raises:
            LabError: there are too many steps, they have another d, or a number is too large in these units.
        """
        length, features = steps.shape
        if features != self.features:
            found = counted(features, "number")
            hint = "; semicolons separate the steps" if length == 1 else ""
            raise LabError(f"a step has {found}, but the model reads {self.features}{hint}")
        if length > self.length:
            raise LabError(f"{length:,} steps, but the model reads at most {self.length:,} (data.max_length)")
        steps = steps.double()  # in whole numbers, the mean would be truncated
        return scale(_names(features), steps, self.mean, self.deviation).float()

    def token_labels(self, inputs: Tensor | Sequence[int], length: int) -> list[str]:
        """The number of each of the `length` steps of one example, from 1."""
        return [str(number) for number in range(1, length + 1)]

    def input_text(self, inputs: Tensor, length: int) -> str:
        """The size of one example [L, d] as text."""
        return f"{counted(length, 'step')} of {counted(inputs.shape[1], 'number')}"

    def _series(self, line: str) -> Tensor:
        return self.standardize(torch.from_numpy(parse_steps(line, one_each=self.features == 1)))


def _names(features: int) -> list[str]:
    """The names of the variables, which are the columns of a series."""
    return [str(number) for number in range(1, features + 1)]
