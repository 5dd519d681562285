"""Synthetic sequences classified by a rule: Motifs by neighbouring symbols, FarPairs by distant ones."""

from abc import abstractmethod
from string import ascii_lowercase

import numpy as np
import numpy.typing as npt

from attention_lab.constructor_options import options_of
from attention_lab.data.classification import ClassificationData
from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datasets import ClassificationSplit, Split
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.sampled import BLOCK, FarPairsSpec, MotifsSpec, SyntheticSpec
from attention_lab.errors import LabError

TRIES = 50
"""Consecutive blocks without a new sequence after which we assume that none are left."""

Symbols = npt.NDArray[np.uint8]
"""Sequences [N, L], each symbol as its index in `symbols`."""


class SyntheticClassification(ClassificationData):
    """Sequences of equal length, sampled with a seed, each with the class that a rule assigns to it.

    The rule has no noise, so the best possible accuracy is 1. All sequences are distinct, so no validation or
    test sequence is in training. Validation and test do not change with `train_size`, and a larger training
    set starts with every smaller one.

    Args:
        labels: the names of the classes.
        symbols: the alphabet, one character each.
        spec: sizes of the splits and lengths of the sequences.

    Raises:
        LabError: (in `setup`) there are too few distinct sequences.
    """

    def __init__(self, labels: list[str], symbols: str, spec: SyntheticSpec) -> None:
        super().__init__(spec.batch_size)
        self.labels, self.symbols, self.length, self.spec = labels, symbols, spec.length, spec

    @abstractmethod
    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """At most `count` sequences, and the number of the class of each."""

    def sequences(self) -> Splits[tuple[list[str], list[int]]]:
        """Sample sequences and their classes, the test split first. Raises LabError if there are too few."""
        generator, seen = np.random.default_rng(self.spec.seed), set[str]()
        ready: list[tuple[str, int]] = []

        def take(count: int) -> tuple[list[str], list[int]]:
            """The next `count` new sequences and their classes."""
            tries = 0
            while len(ready) < count:
                before = len(ready)
                rows, classes = self.draw(BLOCK, generator)
                for text, label in zip(self._texts(rows), classes.tolist(), strict=True):
                    if text not in seen:
                        seen.add(text)
                        ready.append((text, label))
                tries = 0 if len(ready) > before else tries + 1
                if tries == TRIES:
                    raise LabError(
                        f"{sum(self.spec.counts)} different sequences are needed, but there are hardly more "
                        f"than {len(seen)} with {self.spec.limits}; raise data.length or lower the sizes"
                    )
            taken = ready[:count]
            del ready[:count]
            return [text for text, _ in taken], [label for _, label in taken]

        test, validation = take(self.spec.test_size), take(self.spec.validation_size)
        return Splits(take(self.spec.train_size), validation, test)

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        tokenizer = Tokenizer(Notation("characters"), Vocabulary(list(self.symbols)))
        codec = ClassificationCodec(self.labels, self.length, tokenizer)
        self.use_codec(codec, f"this data with {self.spec.limits}")

        def split(sampled: tuple[list[str], list[int]]) -> ClassificationSplit:
            texts, classes = sampled
            return ClassificationSplit(Ragged([tokenizer.vocabulary.ids(text) for text in texts]), classes)

        return self.sequences().map(split)

    def _texts(self, rows: Symbols) -> list[str]:
        letters = np.array(list(self.symbols))[rows]
        return ["".join(row) for row in letters.tolist()]


class Motifs(SyntheticClassification):
    """The class is the short motif somewhere in the sequence. Only neighbouring symbols matter.

    The motifs are the rotations of the first m = `motif_length` letters, so for m = 3 the classes are abc,
    bca and cab: they share their letters, and only the order distinguishes them. A sequence is sampled in
    three steps. Its symbols are drawn uniformly from the alphabet. Then a class and a position are drawn
    uniformly, and the motif overwrites the symbols there. Finally, the sequence is rejected if any motif now
    also occurs elsewhere, so every sequence has exactly one motif at one position.

    Args:
        options: see `MotifsSpec`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few distinct sequences.
    """

    @options_of(MotifsSpec)
    def __init__(self, spec: MotifsSpec) -> None:
        letters = ascii_lowercase[: spec.motif_length]
        self.rotations = [letters[turn:] + letters[:turn] for turn in range(spec.motif_length)]
        super().__init__(self.rotations, ascii_lowercase[: spec.vocabulary], spec)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """See `SyntheticClassification`; returns those of `count` candidates that have exactly one motif."""
        width = len(self.rotations)
        rows = generator.integers(len(self.symbols), size=(count, self.length), dtype=np.uint8)
        classes = generator.integers(width, size=count)
        starts = generator.integers(self.length - width + 1, size=count)
        # Letter i of rotation k is letter (k + i) mod m of the alphabet.
        steps = np.arange(width)
        positions = starts[:, None] + steps
        np.put_along_axis(rows, positions, ((classes[:, None] + steps) % width).astype(np.uint8), axis=1)
        once = self.occurrences(rows) == 1
        return rows[once], classes[once]

    def occurrences(self, rows: Symbols) -> npt.NDArray[np.int64]:
        """Number of motifs in each row: runs of m of the first m letters in cyclic order."""
        width = len(self.rotations)
        follows = (rows[:, :-1] < width) & (rows[:, 1:] == (rows[:, :-1] + 1) % width)
        runs = np.lib.stride_tricks.sliding_window_view(follows, width - 1, axis=1)
        occurrences: npt.NDArray[np.int64] = runs.all(-1).sum(-1)
        return occurrences


class FarPairs(SyntheticClassification):
    """Two of the symbols, far apart, are capitals; the class is whether they are the same letter.

    The positions of the capitals are sampled uniformly from all pairs at least `min_distance` apart, and the
    first capital and all small letters uniformly from the alphabet. With probability 1/2 the second capital
    is the same letter, otherwise one of the others, uniformly. Neither the small letters nor either capital
    alone tells anything about the class: a model that does not compare the two is right half the time.

    Args:
        options: see `FarPairsSpec`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few distinct sequences.
    """

    spec: FarPairsSpec

    @options_of(FarPairsSpec)
    def __init__(self, spec: FarPairsSpec) -> None:
        small = ascii_lowercase[: spec.vocabulary]
        super().__init__(["different", "same"], small + small.upper(), spec)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """See `SyntheticClassification`."""
        letters = len(self.symbols) // 2
        rows = generator.integers(letters, size=(count, self.length), dtype=np.uint8)
        firsts, seconds = np.triu_indices(self.length, self.spec.min_distance)
        pairs = generator.integers(len(firsts), size=count)
        same = generator.integers(2, size=count)
        shifts = generator.integers(1, letters, size=count) * (1 - same)
        every = np.arange(count)
        capital = rows[every, firsts[pairs]]
        rows[every, firsts[pairs]] = letters + capital
        rows[every, seconds[pairs]] = letters + (capital + shifts) % letters
        return rows, same
