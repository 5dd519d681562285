"""The codec of labelled sequences of tokens or vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attention_lab.console_text import counted, printable, quoted
from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines, numbers_line
from attention_lab.data.reading.files import parse_number
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.data.vector_texts import vector_labels, vectors_text
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes


@dataclass(frozen=True)
class ClassificationCodec(BaseCodec):
    """Labels, and sequences of up to `length` tokens (with `tokenizer`) or of exactly `length` vectors.

    Vectors have `features` numbers each, which are divided by `scale`. If `answers` is above 1, each of the
    last `answers` positions has its own label.
    """

    KIND = "classification"
    labels: list[str]
    length: int
    tokenizer: Tokenizer | None = None
    features: int | None = None
    scale: float = 1.0
    answers: int = 1

    @property
    def sizes(self) -> ClassificationSizes:
        """The number of classes and the shape of a sequence."""
        vocabulary = None if self.tokenizer is None else len(self.tokenizer.vocabulary)
        return ClassificationSizes(
            len(self.labels), self.length, vocabulary, self.features, answers=self.answers
        )

    def problem(self) -> str:
        """See `BaseCodec`."""
        if self.features == 0 or (self.features is None) == (self.tokenizer is None):
            return "needs either symbols or vectors of numbers"
        if len(self._numbers) < len(self.labels):
            return "has a label twice"
        fits = 1 <= self.answers <= max(1, self.length)
        return "" if fits else f"has {self.answers} answers for {self.length} tokens"

    def as_line(self, given: object) -> str:
        """See `BaseCodec`; vectors may also be an array [L, d]."""
        return super().as_line(given) if self.tokenizer else numbers_line(given)

    def encode(self, lines: Sequence[str], first: int = 1) -> ClassificationBatch:
        """Encode lines of text, or of `length * features` numbers with commas or spaces; labels are -1."""
        labels = torch.full([len(lines)] if self.answers == 1 else [len(lines), self.answers], -1)
        if self.tokenizer is None:
            vectors = torch.tensor(encode_lines(lines, first, self._vectors))
            return ClassificationBatch(vectors / self.scale, torch.full([len(lines)], self.length), labels)
        tokens = Ragged(encode_lines(lines, first, self.tokens))
        texts = tuple(line.strip("\r\n") for line in lines)
        return ClassificationBatch(tokens[torch.arange(len(lines))], tokens.lengths, labels, texts)

    def tokens(self, text: str) -> list[int]:
        """The ids of one text. Raises LabError if it is too short or too long."""
        if self.tokenizer is None:
            raise LabError("the model reads vectors of numbers, not text")
        ids = self.tokenizer.encode(text)
        if len(ids) < self.answers:
            found = counted(len(ids), "token")
            raise LabError(f"{found}, too few: the model answers at the last {self.answers}")
        if len(ids) > self.length:
            unit = "characters" if self.tokenizer.notation.split == "characters" else "words"
            raise LabError(f"{len(ids)} {unit}, but the model reads at most {self.length} (data.max_length)")
        return ids

    def label(self, name: str) -> int:
        """The number of a label. Raises LabError if the training split has no such label."""
        if name not in self._numbers:
            labels, more = printable(", ".join(self.labels[:10])), len(self.labels) - 10
            rest = f" and {more:,} more" if more > 0 else ""
            raise LabError(
                f"the label {quoted(name)} does not occur in training; the labels are {labels}{rest}"
            )
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.labels)}

    def decode(self, label: int | Sequence[int]) -> str:
        """The name of a label, or of several labels separated by spaces."""
        return self.labels[label] if isinstance(label, int) else " ".join(self.labels[one] for one in label)

    def token_labels(self, inputs: Tensor | Sequence[int], length: int) -> list[str]:
        """A label for each of the `length` steps of one example [L] or [L, d]."""
        if self.tokenizer is None:
            return vector_labels(torch.as_tensor(inputs[:length]))
        return self.tokenizer.labels(inputs[:length])

    def input_text(self, inputs: Tensor, length: int) -> str:
        """One example [L] or [L, d] as text."""
        if self.tokenizer is None:
            return vectors_text(inputs[:length])
        return " ".join(self.tokenizer.labels(inputs[:length]))

    def _vectors(self, line: str) -> list[list[float]]:
        width = self.features or 0
        numbers = [parse_number(field) for field in line.replace(",", " ").split()]
        if len(numbers) != self.length * width:
            found = counted(len(numbers), "number")
            raise LabError(f"{found}, but {self.length} x {width} are needed")
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]
