"""Codecs: raw text to batches and back. A trained model has one, and needs nothing else from its data.

`encode(lines)` makes an unlabelled batch with one example per line; see `encode_lines` for its errors.
`state()` returns plain strings, numbers, lists and dicts, from which `codec_from_state` makes an equal codec.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, get_args

import torch
from torch import Tensor

from attention_lab.console_text import counted, printable, quoted
from attention_lab.data.reading.batches import (
    ClassificationBatch,
    RegressionBatch,
    TransductionBatch,
    Unseen,
    unlabelled,
)
from attention_lab.data.reading.codec_base import BaseCodec, check_codec, encode_lines
from attention_lab.data.reading.files import parse_number
from attention_lab.data.reading.image_codec import ImageCodec
from attention_lab.data.reading.language_codec import LanguageCodec
from attention_lab.data.reading.node_codec import NodeCodec
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.standardizing import check_sizes, check_spreads, moments
from attention_lab.data.reading.vocabulary import TAG, Ids, Tokenizer, is_tag
from attention_lab.data.vector_texts import vector_labels, vectors_text
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes, TransductionSizes
from attention_lab.special_symbols import EOS

LONGEST_SOURCE = 10_000
"""Most symbols of an input to predict for; time and memory grow with the square."""


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
        mean, deviation = torch.zeros(train.shape[1]), torch.ones(train.shape[1])
        if standardize:
            mean, deviation = moments(train)
        names = [*inputs, target]
        # Errors are reported in the units of the data, even if the target is standardised.
        check_spreads(names, train, squared=[not standardize] * len(inputs) + [True])
        return cls(list(inputs), target, mean.tolist(), deviation.tolist())

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
        scaled = (values - values.new_tensor(self.mean)) / values.new_tensor(self.deviation)
        check_sizes([*self.inputs, self.target], values, scaled)
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

    def encode(self, lines: Sequence[str], first: int = 1) -> RegressionBatch:
        """Encode lines of numbers, one for each input, separated by commas or white space; targets are 0."""
        rows = encode_lines(lines, first, self._numbers)
        inputs, targets = self.standardize(torch.tensor(rows, dtype=torch.float64))
        return RegressionBatch(inputs, targets, torch.full([len(rows)], -1))

    def _numbers(self, line: str) -> list[float]:
        fields = line.replace(",", " ").split()
        if len(fields) != len(self.inputs):
            needed = f"{len(self.inputs)} {'is' if len(self.inputs) == 1 else 'are'} needed"
            raise LabError(f"{counted(len(fields), 'number')}, but {needed}: {', '.join(self.inputs)}")
        return [*map(parse_number, fields), self.mean[-1]]

    def decode(self, prediction: Tensor) -> str:
        """One prediction [1] as text, in the units of the data."""
        return f"{self.restore_targets(prediction).item():.6g}"


@dataclass(frozen=True)
class TransductionCodec(BaseCodec):
    """A tokenizer for each side, source and target."""

    KIND = "transduction"
    source: Tokenizer
    target: Tokenizer

    @property
    def sizes(self) -> TransductionSizes:
        """The sizes of both vocabularies, the number of tags, and the symbols that the vocabularies share."""
        source, target = self.source.vocabulary, self.target.vocabulary
        named = self.source.notation.split == "lemma_tags"
        tags = sum(named and is_tag(symbol) and symbol[0] == TAG for symbol in source.symbols)
        return TransductionSizes(len(source), len(target), tags, source.in_other(target))

    def problem(self) -> str:
        """See `BaseCodec`."""
        same = self.source.notation.right_to_left == self.target.notation.right_to_left
        return "" if same else "reads and writes in different directions"

    @property
    def left_to_right(self) -> Self:
        """The same codec, but reading and writing from left to right."""
        return replace(self, source=self.source.left_to_right, target=self.target.left_to_right)

    def encode(self, lines: Sequence[str], first: int = 1) -> TransductionBatch:
        """Encode source lines; the target is only `EOS`, without references or alignment.

        Raises:
            LineError: a line has more than `LONGEST_SOURCE` symbols.
        """
        sources = Ragged(encode_lines(lines, first, self._source))
        unseen = tuple(self.unseen(self.source.tokens(line)) for line in lines)
        return unlabelled(sources[torch.arange(len(lines))], sources.lengths, unseen)

    def _source(self, line: str) -> list[int]:
        ids = self.source.encode(line)
        if len(ids) > LONGEST_SOURCE:
            raise LabError(
                f"{len(ids):,} symbols, but an input may have at most {LONGEST_SOURCE:,}: "
                "split it into several lines"
            )
        return [*ids, EOS]

    def unseen(self, source: Sequence[str], references: Iterable[Sequence[str]] = ()) -> Unseen:
        """The symbols of an example that are not in the vocabularies."""
        missing = self.source.vocabulary.unseen(source)
        keeps_place = self.source.notation.keeps_place
        return Unseen(
            missing,
            tuple(self.target.vocabulary.unseen(one) for one in references),
            tuple(symbol for symbol in missing if not keeps_place(symbol)),
        )

    def decode(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """Target ids as text, up to the first `EOS`; `unseen` as in `Tokenizer.decode`."""
        return self.target.decode(ids, unseen)

    def source_text(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """Source ids as text, up to the first `EOS`; `unseen` as in `Tokenizer.decode`."""
        return self.source.decode(ids, unseen)

    def source_labels(self, ids: Ids, unseen: Sequence[str] = ()) -> list[str]:
        """Label each source step, including `</s>` but not padding; `unseen` as in `Tokenizer.decode`."""
        return self.source.labels(ids, unseen)


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
            raise LabError(f"{len(ids)} tokens are too few: the model answers at the last {self.answers}")
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


Codec = RegressionCodec | TransductionCodec | ClassificationCodec | ImageCodec | NodeCodec | LanguageCodec


def codec_from_state(state: dict[str, Any]) -> Codec:
    """The codec with this `state`, of any kind.

    Raises:
        LabError: the state does not belong to a codec, or its values do not fit together.
    """
    kinds = {kind.KIND: kind for kind in get_args(Codec)}
    if state["kind"] not in kinds:
        raise LabError(
            f"unknown kind of codec {str(state['kind'])[:40]!r}: this checkpoint is from another version"
        )
    codec: Codec = kinds[state["kind"]].from_state(state)
    check_codec(codec, "the checkpoint's codec")
    return codec
