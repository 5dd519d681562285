"""The options of data sets that are sampled with a seed, without torch."""

from dataclasses import KW_ONLY, dataclass, fields
from math import log
from string import ascii_lowercase
from typing import Literal, get_args

from attention_lab.data.specs.base import SampledSpec
from attention_lab.data.specs.option_checks import check_at_least, check_choice
from attention_lab.errors import LabError

Lengths = Literal["uniform", "grown"]

BLOCK = 4096
"""Candidates for `Motifs` and `FarPairs` sampled at once, so that a larger set starts with a smaller one."""
MOST_SYMBOLS = 256
"""Every pair of a key and a value is a separate token, so the vocabulary grows with the square of this."""


@dataclass(frozen=True)
class ToySpec(SampledSpec):
    """The options of a `ToyTransduction`.

    Attributes:
        min_length: length of the shortest sequences.
        max_length: length of the longest sequences.
        vocabulary: number of different symbols.
    """

    min_length: int = 3
    max_length: int = 10
    vocabulary: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, min_length=self.min_length, vocabulary=self.vocabulary)
        check_at_least(self.min_length, max_length=self.max_length)

    @property
    def longest(self) -> int:
        """See `SampledSpec`; a target is as long as its source."""
        return 2 * self.max_length

    @property
    def cost(self) -> int:
        """See `SampledSpec`; a symbol is stored as text, in a list and in a dictionary."""
        return super().cost + 4 * self.vocabulary


@dataclass(frozen=True)
class SentencesSpec(SampledSpec):
    """The options of `Sentences`."""

    validation_size: int = 1_000
    test_size: int = 1_000


@dataclass(frozen=True)
class ListOpsSpec(SampledSpec):
    """The options of `ListOps`.

    Attributes:
        min_length: the smallest number of tokens, including brackets.
        max_length: the largest number of tokens, including brackets.
        max_depth: number of levels of a tree, including its deepest digits.
        max_args: the largest number of arguments of an operator.
        lengths: "uniform" for equally likely lengths; or "grown" for those of growing trees, mostly short.
    """

    validation_size: int = 1000
    test_size: int = 1000
    min_length: int = 5
    max_length: int = 50
    max_depth: int = 10
    max_args: int = 10
    lengths: Lengths = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(4, min_length=self.min_length)
        check_at_least(self.min_length, max_length=self.max_length)
        check_at_least(2, max_depth=self.max_depth, max_args=self.max_args)
        check_choice(get_args(Lengths), lengths=self.lengths)

    @property
    def longest(self) -> int:
        """See `SampledSpec`."""
        return self.max_length

    @property
    def cost(self) -> int:
        """See `SampledSpec`; the grammar's probabilities take a convolution per level and argument."""
        levels = min(self.max_depth, self.max_length // 3 + 1)
        return super().cost + levels * self.max_args * self.max_length * (1 + self.max_length // 4096)


@dataclass(frozen=True)
class RecallSpec(SampledSpec):
    """The options of `Recall`.

    Attributes:
        length: number of tokens in every sequence.
        distance: number of filler tokens between the last pair and the first query; the rest of the filler
            comes before the pairs. None: all filler is in between.
        pairs: number of pairs.
        queries: number of queries.
        symbols: number of keys, and of values.
        short_epochs: number of initial epochs on shorter sequences, which grow from no filler to `length` by
            a constant factor. Their batches have more sequences, so that they have as many tokens as later
            ones.
    """

    train_size: int = 3200
    validation_size: int = 200
    test_size: int = 200
    length: int = 128
    distance: int | None = None
    pairs: int = 8
    queries: int = 8
    symbols: int = 16
    short_epochs: int = 0
    _: KW_ONLY
    batch_size: int | None = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, pairs=self.pairs, queries=self.queries)
        check_at_least(max(2, self.pairs), symbols=self.symbols)
        if self.symbols > MOST_SYMBOLS:
            raise LabError(f"data.symbols={self.symbols}: give at most {MOST_SYMBOLS}")
        check_at_least(self.pairs + self.queries, length=self.length)
        check_at_least(0, short_epochs=self.short_epochs)
        if self.distance is not None:
            check_at_least(0, distance=self.distance)
            filler = self.length - self.pairs - self.queries
            if self.distance > filler:
                raise LabError(
                    f"data.distance={self.distance}: of data.length={self.length}, {self.pairs} pairs and "
                    f"{self.queries} queries leave {filler} tokens of filler"
                )

    @property
    def longest(self) -> int:
        """See `SampledSpec`; examples are stored without their filler."""
        return 2 * self.pairs + self.queries

    @property
    def cost(self) -> int:
        """See `SampledSpec`; batches have the filler, and the first epochs have sequences of their own."""
        ratio = self.length / (self.pairs + self.queries)
        more = self.short_epochs * ((ratio - 1) / log(ratio) if ratio > 1 else 1)
        examples = sum(self.counts)
        batch = min(self.batch_size or examples, examples) * self.length
        return super().cost + int(more * self.train_size) * self.longest + batch


@dataclass(frozen=True)
class SyntheticSpec(SampledSpec):
    """The options that `Motifs` and `FarPairs` share.

    Attributes:
        length: number of symbols in a sequence.
        vocabulary: number of letters in the alphabet, at most 26.
    """

    test_size: int = 2000
    length: int = 24
    vocabulary: int = 6

    @property
    def limits(self) -> str:
        """The options that determine which sequences are possible, as on the command line."""
        names = [one.name for one in fields(self) if one.name not in SampledSpec.__dataclass_fields__]
        *others, last = (f"data.{name}={getattr(self, name)}" for name in names)
        return f"{', '.join(others)} and {last}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vocabulary > len(ascii_lowercase):
            raise LabError(
                f"data.vocabulary={self.vocabulary}: choose at most {len(ascii_lowercase)} letters"
            )

    @property
    def longest(self) -> int:
        """See `SampledSpec`."""
        return self.length

    @property
    def cost(self) -> int:
        """See `SampledSpec`; sequences are sampled in blocks."""
        return super().cost + BLOCK * self.length


@dataclass(frozen=True)
class MotifsSpec(SyntheticSpec):
    """The options of `Motifs`.

    Attributes:
        motif_length: number of letters in a motif, and of classes; at most `length` and `vocabulary`.
    """

    motif_length: int = 3

    def __post_init__(self) -> None:
        check_at_least(2, motif_length=self.motif_length)
        check_at_least(self.motif_length, vocabulary=self.vocabulary, length=self.length)
        super().__post_init__()


@dataclass(frozen=True)
class FarPairsSpec(SyntheticSpec):
    """The options of `FarPairs`.

    Attributes:
        vocabulary: number of letters in the alphabet, from 2 to 26; each also has a capital.
        min_distance: the smallest distance between the two capitals; below `length`.
    """

    vocabulary: int = 4
    min_distance: int = 12

    def __post_init__(self) -> None:
        check_at_least(2, vocabulary=self.vocabulary, length=self.length)
        check_at_least(1, min_distance=self.min_distance)
        if self.min_distance >= self.length:
            raise LabError(
                f"data.min_distance={self.min_distance}: choose less than data.length={self.length}"
            )
        super().__post_init__()

    @property
    def cost(self) -> int:
        """See `SampledSpec`; all pairs of positions are listed."""
        return super().cost + self.length**2


@dataclass(frozen=True)
class DigitStripsSpec(SampledSpec):
    """The options of `DigitStrips`.

    Attributes:
        min_digits: the smallest number of digits in a strip.
        max_digits: the largest number of digits in a strip.
        gap: the widest gap in pixels, including those at either end.
        height: see `ImageTransductionData`.
        cell: see `ImageTransductionData`; at most 8.
    """

    train_size: int = 6_000
    min_digits: int = 2
    max_digits: int = 5
    gap: int = 3
    height: int = 12
    cell: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, min_digits=self.min_digits)
        check_at_least(self.min_digits, max_digits=self.max_digits)
        check_at_least(0, gap=self.gap)

    @property
    def longest(self) -> int:
        """See `SampledSpec`; a pixel takes far less memory than a symbol."""
        return self.height * (8 * self.max_digits + self.gap * (self.max_digits + 1)) // 16


@dataclass(frozen=True)
class SineSpec(SampledSpec):
    """The options of `Sine`.

    Attributes:
        noise: standard deviation of the noise.
    """

    train_size: int = 50
    validation_size: int = 50
    test_size: int = 50
    noise: float = 0.5
    _: KW_ONLY
    batch_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(0.0, noise=self.noise)
