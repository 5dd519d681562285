"""Data sets for the classification of sequences: Digits and Labelled."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor

from attention_lab.console_text import counted, quoted
from attention_lab.constructor_options import options_of
from attention_lab.data.file_warnings.format_hints import header_hints, quotes_hint, swapped_labels_hint
from attention_lab.data.file_warnings.long_lines import long_line_hint, longest_allowed
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.file_warnings.unseen_symbols import Terms, label_hints, unseen_in_files
from attention_lab.data.reading.codecs import ClassificationCodec, check_codec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import ClassificationSplit, Split
from attention_lab.data.reading.files import Row, blame, read_once
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.files import LabelledSpec
from attention_lab.data.specs.packaged import DigitsSpec
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes


class ClassificationData(DataModule):
    """Sequences, each with a class."""

    codec: ClassificationCodec
    sizes: ClassificationSizes

    def use_codec(self, codec: ClassificationCodec, data: str, length: str = "length") -> None:
        """Use this codec, or keep the given one if the two differ only in length.

        Args:
            codec: the codec that follows from the options.
            data: name of the data for messages.
            length: name of the option that limits the length of the sequences.

        Raises:
            LabError: the given codec is for other or shorter sequences, or this codec is invalid.
        """
        check_codec(codec, f"{type(self).__name__}.build: the codec")
        given = self.given(ClassificationCodec) or codec
        if replace(given, length=codec.length) != codec:
            raise LabError(f"the model was not trained on {data}")
        if given.length < codec.length:
            raise LabError(f"data.{length}={codec.length}: the model was made for at most {given.length}")
        self.codec, self.sizes = given, given.sizes

    def checked(self, splits: object) -> Splits[Split]:
        """See `DataModule`; numbers beyond the sizes of the codec would cause an obscure error on a GPU."""
        found = super().checked(splits)
        for name, split in found._asdict().items():
            if isinstance(split, ClassificationSplit) and len(split) and (problem := self._problem(split)):
                raise LabError(f"{type(self).__name__}.build gives {problem}, in {name}")
        return found

    def _problem(self, split: ClassificationSplit) -> str:
        """What does not fit the sizes of the codec; empty if everything fits."""
        sizes = self.sizes
        if split.labels.shape[1:] != (() if sizes.answers == 1 else (sizes.answers,)):
            answers = counted(sizes.answers, "answer")
            return f"labels {list(split.labels.shape)}, but the codec has {answers}"
        first, last = split.labels.aminmax()
        if first < 0 or last >= sizes.classes:
            return f"a label {int(first if first < 0 else last)}, but the codec has 0 to {sizes.classes - 1}"
        shortest, longest = map(int, split.lengths.aminmax())
        if shortest == 0:
            return "an empty sequence"
        if longest > sizes.length:
            return f"{longest} steps, but the codec has a length of {sizes.length}"
        if isinstance(split.inputs, Ragged):
            most = -1 if sizes.vocabulary is None else sizes.vocabulary - 1
            least, largest = split.inputs.bounds
            wrong = least if least < 0 else largest
            return "" if 0 <= wrong <= most else f"a token {wrong}, but the codec has 0 to {most}"
        if not split.is_finite:
            return "a number that is not finite in float32"
        if shortest < sizes.length and not sizes.variable_length:
            return (
                f"{shortest} steps, but the codec has exactly {sizes.length}: a SeriesCodec allows any length"
            )
        features = split.inputs.shape[2] if isinstance(split.inputs, Tensor) else split.inputs.features
        if features != sizes.features:
            return f"vectors of {counted(features, 'number')}, but the codec has {sizes.features or 'none'}"
        return ""


class Digits(ClassificationData):
    """1797 handwritten digits of 8 x 8 pixels in 17 grey levels (scikit-learn), as sequences.

    A fifth is the test split, `train_test_split(..., test_size=0.2, random_state=0)`. A tenth of the rest,
    split off in the same way, is the validation split.

    Args:
        options: see `DigitsSpec`.
    """

    @options_of(DigitsSpec)
    def __init__(self, spec: DigitsSpec) -> None:
        super().__init__(spec.batch_size)
        self.unit, self.train_size, self.seed = spec.unit, spec.train_size, spec.seed

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        from sklearn.datasets import load_digits  # slow to import

        labels = [str(digit) for digit in range(10)]
        codec = ClassificationCodec(labels, length=8, features=8, scale=16.0)
        grid = None
        if self.unit == "pixels":
            grid = (8, 8)
            greys = Vocabulary([str(level) for level in range(17)])
            codec = ClassificationCodec(labels, length=64, tokenizer=Tokenizer(Notation("spaces"), greys))
        if (self.given(ClassificationCodec) or codec) != codec:
            raise LabError(f"the model was not trained on data=digits with data.unit={self.unit}")
        self.codec, self.sizes = codec, replace(codec.sizes, grid=grid)

        source = load_digits()
        images = [" ".join(str(int(grey)) for grey in image) for image in source.data]
        inputs = codec.encode(images).inputs
        train, validation, test = digit_splits(len(images))
        if self.train_size is not None:
            train = _smaller(train, [int(source.target[row]) for row in train], self.train_size, self.seed)
        tokens = codec.tokenizer is not None

        def split(rows: list[int]) -> ClassificationSplit:
            chosen = inputs[rows]
            return ClassificationSplit(Ragged(chosen.tolist()) if tokens else chosen, source.target[rows])

        return Splits(train, validation, test).map(split)


def digit_splits(count: int) -> Splits[list[int]]:
    """The rows of each split of `count` handwritten digits; see `Digits`."""
    from sklearn.model_selection import train_test_split  # slow to import

    learn, test = train_test_split(range(count), test_size=0.2, random_state=0)
    train, validation = train_test_split(learn, test_size=0.1, random_state=0)
    return Splits(train, validation, test)


def _smaller(rows: list[int], classes: list[int], size: int, seed: int) -> list[int]:
    """`size` of the rows, in order and stratified by class; larger sizes include smaller ones."""
    if size > len(rows):
        raise LabError(
            f"data.train_size={size}: data=digits has {len(rows)} examples for training; null takes all"
        )
    generator = torch.Generator().manual_seed(seed)
    rank = {}
    for label in sorted(set(classes)):
        members = [index for index, one in enumerate(classes) if one == label]
        for turn, member in enumerate(torch.randperm(len(members), generator=generator).tolist()):
            rank[members[member]] = (turn + 0.5) / len(members)
    return [rows[index] for index in sorted(sorted(rank, key=rank.__getitem__)[:size])]


class Labelled(ClassificationData):
    """Files of `label<TAB>text` lines (UTF-8), or one file that is split at random by its texts.

    Args:
        options: see `LabelledSpec`.
    """

    @options_of(LabelledSpec)
    def __init__(self, spec: LabelledSpec) -> None:
        super().__init__(spec.batch_size)
        self.files, self.max_length = spec, spec.max_length
        self.notation = spec.notation

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        rows = read_once(self.files)
        self.hints.update(header_hints(rows) | quotes_hint(rows) | swapped_labels_hint(rows))
        tokens = rows.map(lambda split: [self.notation.tokens(row.second) for row in split])
        places, lengths = [row.place for row in chain(*rows)], [len(one) for one in chain(*tokens)]
        codec = self.given(ClassificationCodec)
        if codec is None:
            known = self.files.known(rows)
            labels = distinct_labels([row.first.strip() for row in known], known[0].place)
            longest = longest_allowed(places, lengths, self.files.unit, self.max_length)
            codec = ClassificationCodec(labels, longest, Tokenizer.of(self.notation, tokens.train))
        self.codec, self.sizes = codec, codec.sizes
        answers = rows.map(lambda split: [row.first.strip() for row in split])
        keyed = Splits(*(list(map(Keyed, *split)) for split in zip(tokens, answers, strict=True)))
        self.shared = shared_examples(keyed, self.files.names, "label")
        self.hints.update(label_hints(keyed, self.files))
        self.hints.update(long_line_hint(places, lengths, self.files.unit))
        if codec.tokenizer is not None:
            terms = Terms(self.files.unit.removesuffix("s"), "texts")
            self.unseen = unseen_in_files(tokens, codec.tokenizer.vocabulary, self.files, terms)

        def split(lines: list[Row]) -> ClassificationSplit:
            tokens, labels = [], []
            for row in lines:
                with blame(row.place):
                    tokens.append(codec.tokens(row.second))
                    labels.append(codec.label(row.first.strip()))
            return ClassificationSplit(Ragged(tokens), labels, [row.second for row in lines])

        return rows.map(split)


def distinct_labels(labels: Sequence[str], first: str) -> list[str]:
    """The classes, in order. Raises LabError, naming the place of the first label, if all are the same."""
    distinct = sorted(set(labels))
    if len(distinct) < 2:
        raise LabError(f"{first}: every label is {quoted(distinct[0])}; at least two are needed")
    return distinct
