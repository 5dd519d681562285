"""Associative recall: find the values of keys given long before, in a sequence that is mostly filler."""

import math
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from attention_lab.constructor_options import options_of
from attention_lab.data.classification import ClassificationData
from attention_lab.data.reading.bucketing import GrowingBatches
from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datasets import Split
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.data.specs.sampled import RecallSpec
from attention_lab.data.synthetic.recall_split import Drawn, Layout, RecallSplit


class Recall(ClassificationData):
    r"""Multi-query associative recall (Zoology, 2312.04927, section 3) at a distance.

    A sequence gives `pairs` different keys, each with a value, then filler, then `queries` of these keys. The
    task is to find the value of each query. With two pairs and two queries:

        k3=1 k0=2 . . . . . . k0? k3?   ->   2 1

    Keys, values and queries are sampled uniformly; a key may be queried twice. A pair is a single token, so
    that a single layer of attention can solve the task; the paper has one token for the key and one for the
    value. The answers are labels of the last positions, so the model has to read these: `model.readout=last`.

    Validation and test examples are distinct, and none is in training; they do not change with `train_size`.

    Args:
        options: see `RecallSpec`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few distinct examples.
    """

    @options_of(RecallSpec)
    def __init__(self, spec: RecallSpec) -> None:
        super().__init__(spec.batch_size)
        self.spec, self.length = spec, spec.length
        self.layout = Layout(spec.symbols, spec.distance)
        self.short_epochs = spec.short_epochs

    def short_lengths(self) -> list[int]:
        """The length of the sequences in each of the first epochs."""
        least = self.spec.pairs + self.spec.queries
        return [
            round(least * (self.length / least) ** (epoch / self.short_epochs))
            for epoch in range(self.short_epochs)
        ]

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        symbols, queries = self.spec.symbols, self.spec.queries
        tokenizer = Tokenizer(Notation("spaces"), self.layout.vocabulary())
        labels = [str(number) for number in range(symbols)]
        codec = ClassificationCodec(labels, self.length, tokenizer, answers=queries)
        self.use_codec(codec, f"data=recall with data.symbols={symbols} and data.queries={queries}")
        return self._draw_splits()

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches of the training split; in the first `short_epochs`, of shorter sequences."""
        split = self.splits.train
        ends = list(accumulate(self._train_counts()))
        rows, *short = torch.arange(len(split)).tensor_split(ends[:-1])
        batches = GrowingBatches(split.lengths[rows], short, self.batch_size, *self.rank_and_world_size)
        return self.in_trainers_order(DataLoader(split, sampler=batches, batch_size=None))

    def _train_counts(self) -> list[int]:
        """Number of sequences in the later epochs, then in each of the first ones: more if shorter."""
        lengths = [self.length, *self.short_lengths()]
        return [self.spec.train_size * (self.length // length) for length in lengths]

    def _draw_splits(self) -> Splits[Split]:
        """Sample the splits, test first; in training, the sequences of the first epochs come last."""
        spec, generator = self.spec, np.random.default_rng(self.spec.seed)
        distinct = math.perm(spec.symbols, spec.pairs) * spec.symbols**spec.pairs * spec.pairs**spec.queries
        spec.check_held_out(distinct, "data.pairs or data.symbols")
        held_out: set[bytes] = set()

        def draw(count: int, hold_out: bool) -> Drawn:
            """Sample examples that are not held out; with `hold_out`, hold them out from now on."""
            drawn = self._draw(generator, 0)
            while len(drawn.keys) < count:
                more = self._draw(generator, count - len(drawn.keys))
                fresh = []
                for one in more.hashable():
                    fresh.append(one not in held_out)
                    if hold_out:
                        held_out.add(one)
                drawn = drawn.join(more.select(np.array(fresh)))
            return drawn

        def split(drawn: Drawn) -> RecallSplit:
            return RecallSplit(drawn, torch.full([len(drawn.keys)], self.length), self.layout)

        test, validation = draw(spec.test_size, hold_out=True), draw(spec.validation_size, hold_out=True)
        counts = self._train_counts()
        lengths = torch.tensor([self.length, *self.short_lengths()])
        train = RecallSplit(
            draw(sum(counts), hold_out=False), lengths.repeat_interleave(torch.tensor(counts)), self.layout
        )
        return Splits(train, split(validation), split(test))

    def _draw(self, generator: np.random.Generator, count: int) -> Drawn:
        """Sample independent examples."""
        symbols, pairs = self.spec.symbols, self.spec.pairs
        keys = generator.random((count, symbols)).argsort(axis=1)[:, :pairs]
        values = generator.integers(symbols, size=(count, pairs))
        return Drawn(keys, values, generator.integers(pairs, size=(count, self.spec.queries)))
