"""The user's own pairs of sequences."""

from collections.abc import Sequence

from attention_lab.constructor_options import options_of
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.files import Row, read_once
from attention_lab.data.reading.overlaps import Keyed, shared_examples
from attention_lab.data.reading.parts import Parts
from attention_lab.data.reading.vocabulary import Tokenizer
from attention_lab.data.specs.files import PairsSpec
from attention_lab.data.transduction import Example, TransductionData


class Pairs(TransductionData):
    """Files of `source<TAB>target` lines (UTF-8), or one file that is split at random by its sources.

    A repeated source in validation or test adds a reference. A symbol that does not occur in training is read
    as unknown.

    Args:
        options: see `PairsSpec`.
    """

    @options_of(PairsSpec)
    def __init__(self, spec: PairsSpec) -> None:
        super().__init__(spec.batch_size)
        self.files = spec
        self.source, self.target = spec.source, spec.target

    def examples(self) -> Parts[list[Example]]:
        """Read the files."""

        def example(row: Row) -> Example:
            return Example(self.source.tokens(row.first), self.target.tokens(row.second))

        rows = read_once(self.files)
        parts = rows.map(lambda part: [example(row) for row in part])
        keyed = parts.map(lambda part: [Keyed(tuple(one.source), tuple(one.target)) for one in part])
        self.shared = shared_examples(keyed, self.files.names, "target")
        return parts

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The symbols of the training part."""
        return TransductionCodec(
            Tokenizer.of(self.source, (example.source for example in train)),
            Tokenizer.of(self.target, (example.target for example in train)),
        )
