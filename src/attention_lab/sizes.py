"""Sizes that are known only from the data and shape a model; shared by data, models and tasks."""

from dataclasses import dataclass, field

KIND_OF_DATA = {"data": "kind", "model": "needs"}
"""In `conf/`, the keys for the kind of a data set, and the kind that a model needs; no class takes them."""


@dataclass(frozen=True)
class RegressionSizes:
    """`features` input numbers, `targets` output numbers, `samples` rows in the training set."""

    features: int
    targets: int
    samples: int


@dataclass(frozen=True)
class TransductionSizes:
    """Vocabulary sizes of source and target, each including the four special symbols.

    The last `tags` symbols of the source vocabulary describe the entire source, as morphological tags do.
    `copies` holds the id of the identical target symbol for each source symbol, or 0 if there is none.
    """

    source_vocabulary: int
    target_vocabulary: int
    tags: int = 0
    copies: tuple[int, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class ClassificationSizes:
    """`classes` labels for sequences of up to `length` tokens (`vocabulary`) or vectors (`features`).

    Exactly one of `vocabulary` and `features` is set. If the sequence is the pixels of a picture, row by
    row, `grid` is its numbers of rows and columns. If `answers` is above 1, each of the last `answers`
    positions has its own label; if it is 1, the sequence has a single label. Sequences of vectors can be
    shorter than `length` only if `variable_length` is true; those of tokens always can.
    """

    classes: int
    length: int
    vocabulary: int | None = None
    features: int | None = None
    grid: tuple[int, int] | None = None
    answers: int = 1
    variable_length: bool = False


@dataclass(frozen=True)
class ImageSizes:
    """Pictures `height` pixels high, cut into square cells with sides of `cell` pixels, and their targets.

    `target_vocabulary` includes the special symbols.
    """

    height: int
    cell: int
    target_vocabulary: int


@dataclass(frozen=True)
class GraphSizes:
    """`classes` labels for the nodes of a graph; each node is a vector of `features` numbers."""

    classes: int
    features: int
    directed: bool = False


@dataclass(frozen=True)
class LanguageSizes:
    """Vocabulary size including the special symbols, and context length in symbols including `BOS`."""

    vocabulary: int
    length: int


Sizes = RegressionSizes | TransductionSizes | ClassificationSizes | ImageSizes | GraphSizes | LanguageSizes
