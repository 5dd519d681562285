"""Synthetic sequences whose class follows from a rule: Motifs by neighbours, FarPairs by distant symbols."""

from abc import abstractmethod
from string import ascii_lowercase

import numpy as np
import numpy.typing as npt

from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.parts import Parts, check_at_least
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.splits import ClassificationSplit, Split
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

BLOCK = 4096
"""Candidates sampled at once; constant, so that a larger set starts with the same sequences as a smaller."""
TRIES = 50
"""Consecutive blocks without a new sequence after which we assume that none are left."""

Symbols = npt.NDArray[np.uint8]
"""Sequences [N, L], each symbol as its index in `symbols`."""


class SyntheticClassification(DataModule):
    """Sequences of equal length, sampled with a seed, each with the class that a rule assigns to it.

    The rule has no noise, so the best possible accuracy is 1. All sequences are distinct, so none of the
    validation or test part is in training. Validation and test do not change with `train_size`, and a larger
    training set starts with every smaller one.

    Args:
        labels: the names of the classes.
        symbols: the alphabet, one character each.
        counts: sequences of each part.
        length: symbols in a sequence.
        seed: of the data, apart from the seed of the training.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few such sequences.
    """

    codec: ClassificationCodec
    sizes: ClassificationSizes

    def __init__(
        self,
        labels: list[str],
        symbols: str,
        counts: Parts[int],
        length: int,
        seed: int,
        batch_size: int | None,
    ) -> None:
        super().__init__(batch_size)
        train, validation, test = counts
        check_at_least(1, train_size=train, validation_size=validation, test_size=test)
        check_at_least(0, seed=seed)
        self.labels, self.symbols = labels, symbols
        self.counts, self.length, self.seed = counts, length, seed

    @abstractmethod
    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """At most `count` sequences, and the number of the class of each."""

    def sequences(self) -> Parts[tuple[list[str], list[int]]]:
        """Sample sequences and their classes, the test part first. Raises LabError if there are too few."""
        generator, seen = np.random.default_rng(self.seed), set[str]()
        ready: list[tuple[str, int]] = []

        def take(count: int) -> tuple[list[str], list[int]]:
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
                        f"{sum(self.counts)} different sequences are needed, and there are hardly more than "
                        f"{len(seen)} with {self._options()}; raise data.length or lower the sizes"
                    )
            taken = ready[:count]
            del ready[:count]
            return [text for text, _ in taken], [label for _, label in taken]

        test, validation = take(self.counts.test), take(self.counts.validation)
        return Parts(take(self.counts.train), validation, test)

    def build(self) -> Parts[Split]:
        """See `DataModule`."""
        tokenizer = Tokenizer(Notation("characters"), Vocabulary(list(self.symbols)))
        codec = ClassificationCodec(self.labels, self.length, tokenizer)
        given = self.given(ClassificationCodec) or codec
        if given.tokenizer != codec.tokenizer or given.labels != codec.labels:
            raise LabError(f"the model was not trained on this data with {self._options()}")
        if given.length < codec.length:
            raise LabError(f"data.length={codec.length}: the model was made for at most {given.length}")
        self.codec, self.sizes = given, given.sizes

        def split(part: tuple[list[str], list[int]]) -> ClassificationSplit:
            texts, classes = part
            return ClassificationSplit(Ragged([tokenizer.vocabulary.ids(text) for text in texts]), classes)

        return self.sequences().map(split)

    def _texts(self, rows: Symbols) -> list[str]:
        letters = np.array(list(self.symbols))[rows]
        return ["".join(row) for row in letters.tolist()]

    @abstractmethod
    def _options(self) -> str:
        """The options that determine which sequences are possible, as on the command line."""


class Motifs(SyntheticClassification):
    """The class is the short motif somewhere in the sequence. Only neighbouring symbols matter.

    The motifs are the rotations of the first m = `motif_length` letters, so for m = 3 the classes are abc,
    bca and cab: they share their letters, and only the order tells them apart. A sequence is sampled in
    three steps: its symbols uniformly from the alphabet; then a class and a position, uniformly, where the
    motif overwrites them; and if any motif now also occurs elsewhere, the sequence is rejected. So every
    sequence has exactly one motif at one position.

    Args:
        train_size: sequences for training; validation_size and test_size: likewise.
        length: symbols in a sequence.
        vocabulary: letters of the alphabet, from `motif_length` to 26.
        motif_length: letters of a motif, and the number of classes.
        seed: of the data, apart from the seed of the training.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few such sequences.
    """

    def __init__(
        self,
        train_size: int = 10_000,
        validation_size: int = 500,
        test_size: int = 2000,
        length: int = 24,
        vocabulary: int = 6,
        motif_length: int = 3,
        seed: int = 0,
        batch_size: int | None = 64,
    ) -> None:
        check_at_least(2, motif_length=motif_length)
        _check_vocabulary(motif_length, vocabulary)
        check_at_least(motif_length, length=length)
        letters = ascii_lowercase[:motif_length]
        self.rotations = [letters[turn:] + letters[:turn] for turn in range(motif_length)]
        counts = Parts(train_size, validation_size, test_size)
        super().__init__(self.rotations, ascii_lowercase[:vocabulary], counts, length, seed, batch_size)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """See `SyntheticClassification`; those of `count` candidates that have exactly one motif."""
        width = len(self.rotations)
        rows = generator.integers(len(self.symbols), size=(count, self.length), dtype=np.uint8)
        classes = generator.integers(width, size=count)
        starts = generator.integers(self.length - width + 1, size=count)
        # Letter i of rotation k is letter (k + i) mod m of the alphabet.
        steps = np.arange(width)
        places = starts[:, None] + steps
        np.put_along_axis(rows, places, ((classes[:, None] + steps) % width).astype(np.uint8), axis=1)
        once = self.occurrences(rows) == 1
        return rows[once], classes[once]

    def occurrences(self, rows: Symbols) -> npt.NDArray[np.int64]:
        """Number of motifs in each row: runs of m of the first m letters in cyclic order."""
        width = len(self.rotations)
        follows = (rows[:, :-1] < width) & (rows[:, 1:] == (rows[:, :-1] + 1) % width)
        runs = np.lib.stride_tricks.sliding_window_view(follows, width - 1, axis=1)
        occurrences: npt.NDArray[np.int64] = runs.all(-1).sum(-1)
        return occurrences

    def _options(self) -> str:
        return (
            f"data.length={self.length}, data.vocabulary={len(self.symbols)} and "
            f"data.motif_length={len(self.rotations)}"
        )


class FarPairs(SyntheticClassification):
    """Two of the symbols, far apart, are capitals; the class is whether they are the same letter.

    The positions of the capitals are sampled uniformly from all pairs at least `min_distance` apart, the
    first capital and all small letters uniformly from the alphabet. With probability 1/2 the second capital
    is the same letter, otherwise one of the others, uniformly. Neither the small letters nor either capital
    alone says anything about the class: a model that does not compare the two is right half the time.

    Args:
        train_size: sequences for training; validation_size and test_size: likewise.
        length: symbols in a sequence.
        vocabulary: letters of the alphabet, from 2 to 26; each also has a capital.
        min_distance: the smallest distance between the two capitals; below `length`.
        seed: of the data, apart from the seed of the training.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few such sequences.
    """

    def __init__(
        self,
        train_size: int = 10_000,
        validation_size: int = 500,
        test_size: int = 2000,
        length: int = 24,
        vocabulary: int = 4,
        min_distance: int = 12,
        seed: int = 0,
        batch_size: int | None = 64,
    ) -> None:
        _check_vocabulary(2, vocabulary)
        check_at_least(2, length=length)
        check_at_least(1, min_distance=min_distance)
        if min_distance >= length:
            raise LabError(f"data.min_distance={min_distance}: choose less than data.length={length}")
        self.min_distance = min_distance
        small = ascii_lowercase[:vocabulary]
        counts = Parts(train_size, validation_size, test_size)
        super().__init__(["different", "same"], small + small.upper(), counts, length, seed, batch_size)

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Symbols, npt.NDArray[np.int64]]:
        """See `SyntheticClassification`."""
        letters = len(self.symbols) // 2
        rows = generator.integers(letters, size=(count, self.length), dtype=np.uint8)
        firsts, seconds = np.triu_indices(self.length, self.min_distance)
        pairs = generator.integers(len(firsts), size=count)
        same = generator.integers(2, size=count)
        shifts = generator.integers(1, letters, size=count) * (1 - same)
        every = np.arange(count)
        capital = rows[every, firsts[pairs]]
        rows[every, firsts[pairs]] = letters + capital
        rows[every, seconds[pairs]] = letters + (capital + shifts) % letters
        return rows, same

    def _options(self) -> str:
        return (
            f"data.length={self.length}, data.vocabulary={len(self.symbols) // 2} and "
            f"data.min_distance={self.min_distance}"
        )


def _check_vocabulary(least: int, vocabulary: int) -> None:
    check_at_least(least, vocabulary=vocabulary)
    if vocabulary > len(ascii_lowercase):
        raise LabError(
            f"data.vocabulary={vocabulary}: there are {len(ascii_lowercase)} letters to choose from"
        )
