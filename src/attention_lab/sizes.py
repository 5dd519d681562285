"""Sizes that come from the data and shape a model: a leaf that data, models and tasks all read."""

from dataclasses import dataclass

PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Ids of the special symbols in every vocabulary: padding, begin, end and unknown."""


@dataclass(frozen=True)
class RegressionSizes:
    """`features` numbers in, `targets` numbers out, `samples` rows in the training set."""

    features: int
    targets: int
    samples: int


@dataclass(frozen=True)
class TransductionSizes:
    """Numbers of symbols, the four special ones included, on each side."""

    source_vocabulary: int
    target_vocabulary: int


@dataclass(frozen=True)
class ClassificationSizes:
    """`classes` labels for sequences of up to `length` tokens (`vocabulary`) or vectors (`features`).

    Exactly one of `vocabulary` and `features` is set. `grid` is the rows and columns of a picture whose
    pixels are the sequence, line by line. With `answers` above 1, each of the last that many positions has a
    label of its own; with 1, the sequence has one.
    """

    classes: int
    length: int
    vocabulary: int | None = None
    features: int | None = None
    grid: tuple[int, int] | None = None
    answers: int = 1


@dataclass(frozen=True)
class ImageSizes:
    """Pictures of `height` pixels in square cells of `cell`, and symbols, the special ones included."""

    height: int
    cell: int
    target_vocabulary: int


@dataclass(frozen=True)
class GraphSizes:
    """`classes` labels for the nodes of a graph, which are vectors of `features` numbers each."""

    classes: int
    features: int
    directed: bool = False


@dataclass(frozen=True)
class LanguageSizes:
    """Number of symbols, the special ones included, and the most that are read at once, `BOS` included."""

    vocabulary: int
    length: int


Sizes = RegressionSizes | TransductionSizes | ClassificationSizes | ImageSizes | GraphSizes | LanguageSizes
