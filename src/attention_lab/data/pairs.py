"""The user's own pairs of sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from attention_lab.constructor_options import options_of
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.files import Row, TextParts
from attention_lab.data.reading.overlaps import Keyed, shared_examples
from attention_lab.data.reading.parts import Parts, check_choice
from attention_lab.data.reading.vocabulary import Cut, Normalization, Notation, Tokenizer
from attention_lab.data.transduction import Example, TransductionData


@dataclass(frozen=True, kw_only=True)
class PairsSpec(TextParts):
    """The options of `Pairs`.

    Attributes:
        source_split: how to split a source into symbols, "characters" or "spaces"; target_split: likewise.
        source_normalization: Unicode form "none", "NFC", "NFD" or "NFKD"; target_normalization: likewise.
    """

    source_split: Cut = "characters"
    target_split: Cut = "characters"
    source_normalization: Normalization = "none"
    target_normalization: Normalization = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(get_args(Cut), source_split=self.source_split, target_split=self.target_split)
        check_choice(
            get_args(Normalization),
            source_normalization=self.source_normalization,
            target_normalization=self.target_normalization,
        )


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
        self.source = Notation(spec.source_split, spec.source_normalization)
        self.target = Notation(spec.target_split, spec.target_normalization)

    def examples(self) -> Parts[list[Example]]:
        """Read the files."""

        def example(row: Row) -> Example:
            return Example(self.source.tokens(row.first), self.target.tokens(row.second))

        rows = self.files.read(("source", "target"), key=lambda row: self.source.tokens(row.first))
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
