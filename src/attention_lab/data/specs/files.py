"""The options of data sets that are read from the user's files, and the reading itself, without torch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Literal, get_args

from attention_lab.console_text import counted
from attention_lab.data.file_warnings.format_hints import swapped_labels
from attention_lab.data.reading.files import CHARACTERS, WORDS, Row, blame, read_text
from attention_lab.data.reading.series_files import LabelledSeries, read_series
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Normalization, Notation, TextSplit, check_symbols
from attention_lab.data.specs.base import ColumnsSpec, FileSpec
from attention_lab.data.specs.option_checks import check_at_least, check_choice
from attention_lab.data.subwords import check_tokenizers
from attention_lab.errors import LabError

PairsSplit = Literal["characters", "spaces", "subwords"]
TextUnit = Literal["characters", "words"]


@dataclass(frozen=True, kw_only=True)
class PairsSpec(ColumnsSpec):
    """The options of `Pairs`.

    Attributes:
        source_split: how to split a source into symbols, "characters", "spaces" or "subwords".
        target_split: how to split a target into symbols, in the same way.
        subwords: number of pieces for each side that is split into "subwords", including single characters;
            fewer if the training split has no more pairs to merge.
        source_normalization: Unicode form of sources, "none", "NFC", "NFD" or "NFKD".
        target_normalization: Unicode form of targets, in the same way.
        right_to_left: read and generate from the last symbol to the first.
    """

    COLUMNS = ("source", "target")

    source_split: PairsSplit = "characters"
    target_split: PairsSplit = "characters"
    subwords: int = 1000
    source_normalization: Normalization = "none"
    target_normalization: Normalization = "none"
    right_to_left: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, subwords=self.subwords)
        check_choice(get_args(PairsSplit), source_split=self.source_split, target_split=self.target_split)
        for side in ("source", "target"):
            if getattr(self, f"{side}_split") == "subwords":
                check_tokenizers(f"data.{side}_split=subwords")
        check_choice(
            get_args(Normalization),
            source_normalization=self.source_normalization,
            target_normalization=self.target_normalization,
        )

    @property
    def source(self) -> Notation:
        """How sources are split into symbols."""
        return Notation(self.source_split, self.source_normalization, right_to_left=self.right_to_left)

    @property
    def target(self) -> Notation:
        """How targets are split into symbols."""
        return Notation(self.target_split, self.target_normalization, right_to_left=self.right_to_left)

    def load(self) -> Splits[list[Row]]:
        """Read the files."""
        return self.read(key=lambda row: _symbols(self.source, row.first))

    def symbols(self, row: Row) -> Iterable[str]:
        """See `ColumnsSpec`; its words if subwords are to be learned, as a word takes quadratic time."""
        return *_symbols(self.source, row.first, "spaces"), *_symbols(self.target, row.second, "spaces")


def _symbols(side: Notation, text: str, subwords: TextSplit = "characters") -> tuple[str, ...]:
    """The symbols of a text from left to right; `subwords` is the split if subwords are to be learned."""
    split = subwords if side.split == "subwords" else side.split
    return Notation(split, side.normalization).tokens(text)


@dataclass(frozen=True, kw_only=True)
class LabelledSpec(ColumnsSpec):
    """The options of `Labelled`.

    Attributes:
        unit: the kind of token, "characters" or "words".
        max_length: the largest number of tokens in a text, also in prediction; None for that in the data,
            which must then be at most 10,000.
    """

    COLUMNS = ("label", "text")

    unit: TextUnit = "words"
    max_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(get_args(TextUnit), unit=self.unit)
        if self.max_length is not None:
            check_at_least(1, max_length=self.max_length)

    @property
    def notation(self) -> Notation:
        """How texts are split into tokens."""
        return Notation("characters" if self.unit == "characters" else "spaces")

    def load(self) -> Splits[list[Row]]:
        """Read the files."""
        return self.read(key=lambda row: self.notation.tokens(row.second))

    def why_few(self, rows: Sequence[Row]) -> str:
        """See `ColumnsSpec`; the columns may be swapped."""
        swapped = swapped_labels(rows)
        return f"; {swapped}" if swapped else super().why_few(rows)

    def symbols(self, row: Row) -> tuple[str, ...]:
        """See `ColumnsSpec`; the label is one, too."""
        return row.first.strip(), *self.notation.tokens(row.second)


@dataclass(frozen=True, kw_only=True)
class TimeSeriesSpec(ColumnsSpec):
    """The options of `TimeSeries`.

    Attributes:
        standardize: whether to scale each variable to mean 0 and standard deviation 1 on the training split.
        max_length: the largest number of steps in a series, also in prediction; None for that in the data,
            which must then be at most 10,000.
    """

    COLUMNS = ("label", "series")

    standardize: bool = True
    max_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length is not None:
            check_at_least(1, max_length=self.max_length)

    def check_file(self, path: str) -> None:
        """See `FileSpec`."""
        read_series(path)

    def load(self) -> Splits[list[LabelledSeries]]:
        """Read the files."""
        return self.gather(read_series, lambda rows: self.divided(rows, lambda row: row.key))


@dataclass(frozen=True, kw_only=True)
class TextSpec(FileSpec):
    """The options of `Text`.

    Attributes:
        unit: "characters" or "words" (separated by white space, including line breaks).
        block_size: number of symbols in a block; the last block of a split may be shorter.
        min_count: symbols that occur less often than this in training are read as the unknown symbol.
    """

    unit: TextUnit = "characters"
    block_size: int = 128
    min_count: int = 2
    batch_size: int | None = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(get_args(TextUnit), unit=self.unit)
        check_at_least(1, min_count=self.min_count)
        check_at_least(2, block_size=self.block_size)

    @property
    def notation(self) -> Notation:
        """How texts are split into symbols."""
        return Notation("characters" if self.unit == "characters" else "spaces")

    def load(self) -> Splits[Sequence[str]]:
        """Read the files and split them into symbols."""
        return self.gather(self._read, self._split)

    def _read(self, file: str) -> Sequence[str]:
        text = read_text(file, CHARACTERS if self.unit == "characters" else WORDS)
        if self.unit == "characters":
            return text  # a tuple of characters would take up to 100 times the memory
        symbols = tuple(map(intern, self.notation.tokens(text)))  # keeps each word in memory only once
        with blame(file):
            check_symbols(symbols)
        return symbols

    def _split(self, symbols: Sequence[str]) -> Splits[Sequence[str]]:
        validation, test = (max(1, round(share * len(symbols))) for share in self.fractions[1:])
        train = len(symbols) - validation - test
        if train < 1:
            found = counted(len(symbols), self.unit.removesuffix("s"))
            raise LabError(f"{self.file}: {found}, too few for three splits")
        return Splits(symbols[:train], symbols[train : train + validation], symbols[train + validation :])


@dataclass(frozen=True, kw_only=True)
class InflectionSpec(ColumnsSpec):
    """The options of `Inflection`.

    Attributes:
        normalization: Unicode form of lemmas and forms, "none", "NFC", "NFD" or "NFKD".
        known_forms: number of other forms of the lemma in training to add to a source; see `Paradigms`.
        hallucinate: number of synthetic examples to add to training; see `hallucination`.
        seed: seed of the split of `file` and of the synthetic examples.
        right_to_left: read and generate words from the last letter to the first.
    """

    COLUMNS = ("lemma", "form", "tags")

    normalization: Normalization = "none"
    known_forms: int = 0
    hallucinate: int = 0
    right_to_left: bool = False
    batch_size: int | None = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(get_args(Normalization), normalization=self.normalization)
        check_at_least(0, known_forms=self.known_forms, hallucinate=self.hallucinate)

    @property
    def cost(self) -> int:
        """The cost of the synthetic examples; see `SampledSpec`."""
        return 64 * self.hallucinate

    @property
    def source(self) -> Notation:
        """How lemmas and tags are split into letters and tags."""
        return Notation("lemma_tags", self.normalization, right_to_left=self.right_to_left)

    @property
    def target(self) -> Notation:
        """How forms are split into letters."""
        return Notation("characters", self.normalization, right_to_left=self.right_to_left)

    def load(self) -> Splits[list[Row]]:
        """Read the files."""
        return self.read(key=lambda row: self.target.tokens(row.first))

    def symbols(self, row: Row) -> Iterable[str]:
        """See `ColumnsSpec`."""
        return self.source.tokens(f"{row.first}\t{row.third}")
