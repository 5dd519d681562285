"""Toy tasks with known gold alignments: Reverse, Copy, Sort and Repeat."""

import random
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import islice, product
from string import ascii_lowercase

from attention_lab.constructor_options import options_of
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.sampled import ToySpec
from attention_lab.data.transduction import Example, TransductionData


class ToyTransduction(TransductionData):
    """Random sequences of letters, with uniform lengths and letters, and a rearrangement of each.

    Validation and test sequences are distinct, and none is in training; training may repeat sequences. The
    held-out sequences do not change with `train_size`. If there are more than 26 symbols, they have names of
    two letters, separated by spaces.

    Args:
        options: see `ToySpec`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few distinct sequences.
    """

    @options_of(ToySpec)
    def __init__(self, spec: ToySpec) -> None:
        super().__init__(spec.batch_size)
        self.spec = spec
        self.lengths = range(spec.min_length, spec.max_length + 1)
        width = 1
        while len(ascii_lowercase) ** width < spec.vocabulary:
            width += 1
        names = product(ascii_lowercase, repeat=width)
        self.symbols = ["".join(name) for name in islice(names, spec.vocabulary)]

    @abstractmethod
    def origins(self, source: Sequence[str]) -> list[int]:
        """The source position of each target symbol, which defines the task and its gold alignment."""

    def examples(self) -> Splits[list[Example]]:
        """Sample the pairs, the test split first."""
        train, validation, test = self.spec.counts
        distinct, needed = 0, 2 * (test + validation)
        for length in self.lengths:
            distinct += len(self.symbols) ** length
            if distinct >= needed:
                break  # for long sequences, this number has very many digits
        self.spec.check_held_out(distinct, "data.max_length or data.vocabulary")
        generator = random.Random(self.spec.seed)
        held_out: set[tuple[str, ...]] = set()

        def draw(count: int, hold_out: bool) -> list[Example]:
            """Sample examples that are not held out; with `hold_out`, hold them out from now on."""
            drawn: list[Example] = []
            while len(drawn) < count:
                source = tuple(generator.choices(self.symbols, k=generator.choice(self.lengths)))
                if source in held_out:
                    continue
                if hold_out:
                    held_out.add(source)
                origins = self.origins(source)
                drawn.append(Example(source, [source[origin] for origin in origins], origins))
            return drawn

        splits = {"test": draw(test, hold_out=True), "validation": draw(validation, hold_out=True)}
        return Splits(train=draw(train, hold_out=False), **splits)

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The codec of all symbols, including symbols that do not occur in training."""
        notation = Notation("characters" if len(self.symbols[0]) == 1 else "spaces")
        tokenizer = Tokenizer(notation, Vocabulary(self.symbols))
        return TransductionCodec(tokenizer, tokenizer)


class Reverse(ToyTransduction):
    """Write a sequence backwards: target t is source `S - 1 - t`."""

    def origins(self, source: Sequence[str]) -> list[int]:
        """The positions from the last to the first."""
        return list(reversed(range(len(source))))


class Copy(ToyTransduction):
    """Write a sequence again: target t is source t."""

    def origins(self, source: Sequence[str]) -> list[int]:
        """The positions in order."""
        return list(range(len(source)))


class Sort(ToyTransduction):
    """Sort a sequence; equal symbols keep their order."""

    def origins(self, source: Sequence[str]) -> list[int]:
        """The positions in the order of their symbols."""
        return sorted(range(len(source)), key=source.__getitem__)


class Repeat(ToyTransduction):
    """Write each symbol once, twice or three times: symbol n of the alphabet `n % 3 + 1` times.

    Several targets share a source position, so progress in the target differs from progress in the source.
    """

    def origins(self, source: Sequence[str]) -> list[int]:
        """The positions in order, each repeated as often as its symbol occurs in the target."""
        return [position for position, symbol in enumerate(source) for _ in range(self.times[symbol])]

    @cached_property
    def times(self) -> dict[str, int]:
        """How often each symbol occurs in the target."""
        return {symbol: number % 3 + 1 for number, symbol in enumerate(self.symbols)}
