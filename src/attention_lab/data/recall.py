"""Associative recall: the values of keys that were given long before, in a sequence that is mostly filler."""

from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.loading import GrowingBatches
from attention_lab.data.reading.parts import Parts, check_at_least
from attention_lab.data.reading.splits import Split
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.data.recall_split import Drawn, Layout, RecallSplit
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

MOST_SYMBOLS = 256
"""Every pair of a key and a value is a separate token, so the vocabulary grows with the square of this."""


class Recall(DataModule):
    r"""Multi-query associative recall (Zoology, 2312.04927, section 3) at a distance.

    A sequence gives `pairs` different keys, each with a value, then filler, then `queries` of these keys; the
    task is to find the value of each query. With two pairs and two queries:

        k3=1 k0=2 . . . . . . k0? k3?   ->   2 1

    Keys, values and queries are sampled uniformly; a key may be queried twice. A pair is one token, where
    the paper has one for the key and one for the value, so that a single layer of attention can solve it.
    The answers are labels of the last positions, so the model has to read these: `model.readout=last`.

    Validation and test examples are distinct, and none is in training; they do not change with `train_size`.

    Args:
        train_size: sequences for training; validation_size and test_size: likewise.
        length: tokens of every sequence.
        distance: filler tokens between the last pair and the first query; the rest of the filler comes before
            the pairs. None: all filler is in between.
        pairs: number of pairs; queries: number of queries.
        symbols: number of keys, and of values.
        short_epochs: number of initial epochs on shorter sequences, which grow from no filler to `length` by
            a constant factor. Batches then have more sequences, so that they have as many tokens as later.
        seed: seed of the data, separate from the training seed.
        batch_size: see `DataModule`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few different examples.
    """

    codec: ClassificationCodec
    sizes: ClassificationSizes

    def __init__(
        self,
        train_size: int = 3200,
        validation_size: int = 200,
        test_size: int = 200,
        length: int = 128,
        distance: int | None = None,
        pairs: int = 8,
        queries: int = 8,
        symbols: int = 16,
        short_epochs: int = 0,
        seed: int = 0,
        batch_size: int | None = 32,
    ) -> None:
        super().__init__(batch_size)
        check_at_least(1, train_size=train_size, validation_size=validation_size, test_size=test_size)
        check_at_least(1, pairs=pairs, queries=queries)
        check_at_least(max(2, pairs), symbols=symbols)
        if symbols > MOST_SYMBOLS:
            raise LabError(f"data.symbols={symbols}: give at most {MOST_SYMBOLS}")
        check_at_least(pairs + queries, length=length)
        check_at_least(0, short_epochs=short_epochs)
        if distance is not None:
            check_at_least(0, distance=distance)
            if distance > length - pairs - queries:
                raise LabError(
                    f"data.distance={distance}: of data.length={length}, {pairs} pairs and {queries} queries "
                    f"leave {length - pairs - queries} tokens of filler"
                )
        self.counts = Parts(train_size, validation_size, test_size)
        self.length, self.pairs, self.queries = length, pairs, queries
        self.layout = Layout(symbols, distance)
        self.short_epochs = short_epochs
        self.seed = seed

    def short_lengths(self) -> list[int]:
        """The length of the sequences in each of the first epochs."""
        least = self.pairs + self.queries
        return [
            round(least * (self.length / least) ** (epoch / self.short_epochs))
            for epoch in range(self.short_epochs)
        ]

    def build(self) -> Parts[Split]:
        """See `DataModule`."""
        labels = [str(number) for number in range(self.layout.symbols)]
        tokenizer = Tokenizer(Notation("spaces"), self.layout.vocabulary())
        codec = ClassificationCodec(labels, self.length, tokenizer, answers=self.queries)
        given = self.given(ClassificationCodec) or codec
        if (given.tokenizer, given.labels, given.answers) != (tokenizer, labels, self.queries):
            raise LabError(
                "the model was not trained on data=recall with "
                f"data.symbols={self.layout.symbols} and data.queries={self.queries}"
            )
        if given.length < self.length:
            raise LabError(f"data.length={self.length}: the model was made for at most {given.length}")
        self.codec, self.sizes = given, given.sizes
        return self._draw_parts()

    def train_dataloader(self) -> DataLoader[Any]:
        """Batches of the training part, shuffled; in the first `short_epochs`, of shorter sequences."""
        split, trainer = self.parts.train, self.trainer
        rank, world_size = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        ends = list(accumulate(self._train_counts()))
        rows, *short = torch.arange(len(split)).tensor_split(ends[:-1])
        batches = GrowingBatches(split.lengths[rows], short, self.batch_size, rank, world_size)
        return DataLoader(split, sampler=batches, batch_size=None)

    def _train_counts(self) -> list[int]:
        """Number of sequences in the later epochs, then in each of the first ones: more if shorter."""
        lengths = [self.length, *self.short_lengths()]
        return [self.counts.train * (self.length // length) for length in lengths]

    def _draw_parts(self) -> Parts[Split]:
        """Sample the parts, test first; in training, the sequences of the first epochs come last."""
        generator = np.random.default_rng(self.seed)
        self._check_space()
        held_out: set[bytes] = set()

        def draw(count: int, once: bool) -> Drawn:
            """Sample examples that are not held out; with `once`, hold them out from then on."""
            drawn = self._draw(generator, 0)
            while len(drawn.keys) < count:
                more = self._draw(generator, count - len(drawn.keys))
                fresh = []
                for one in more.each():
                    fresh.append(one not in held_out)
                    if once:
                        held_out.add(one)
                drawn = drawn.join(more.select(np.array(fresh)))
            return drawn

        def split(drawn: Drawn) -> RecallSplit:
            return RecallSplit(drawn, torch.full([len(drawn.keys)], self.length), self.layout)

        test, validation = draw(self.counts.test, once=True), draw(self.counts.validation, once=True)
        counts = self._train_counts()
        lengths = torch.tensor([self.length, *self.short_lengths()])
        train = RecallSplit(
            draw(sum(counts), once=False), lengths.repeat_interleave(torch.tensor(counts)), self.layout
        )
        return Parts(train, split(validation), split(test))

    def _draw(self, generator: np.random.Generator, count: int) -> Drawn:
        """Sample independent examples."""
        symbols = self.layout.symbols
        keys = generator.random((count, symbols)).argsort(axis=1)[:, : self.pairs]
        values = generator.integers(symbols, size=(count, self.pairs))
        return Drawn(keys, values, generator.integers(self.pairs, size=(count, self.queries)))

    def _check_space(self) -> None:
        """Raise LabError if validation and test would leave hardly anything to train on."""
        space = float(self.pairs) ** self.queries
        for taken in range(self.pairs):
            space *= float(self.layout.symbols - taken) * self.layout.symbols
        if 2 * (self.counts.validation + self.counts.test) > space:
            raise LabError(
                f"data.validation_size={self.counts.validation} and data.test_size={self.counts.test} take "
                f"more than half of all {space:.0f} different examples; raise data.pairs or data.symbols, "
                "or lower the sizes"
            )
