"""The user's own pairs of sequences."""

from collections.abc import Sequence
from typing import get_args

from attention_lab.data.overlaps import Keyed, shared_examples
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.files import Row, TextParts
from attention_lab.data.reading.parts import Parts, check_choice
from attention_lab.data.reading.vocabulary import Cut, Normalization, Notation, Tokenizer
from attention_lab.data.transduction import Example, TransductionData


class Pairs(TransductionData):
    """Files of `source<TAB>target` lines (UTF-8), or one file that is parted at random by its sources.

    A source that comes again in validation or test gives one more reference. A symbol that training lacks
    is read as unknown.

    Args:
        train_file: path; validation_file and test_file: likewise, all three or none.
        file: path of one file in place of the three.
        fractions: shares of the parts in `file`, each above 0.
        seed: of the split of `file`.
        source_split: "characters" or "spaces", what a source symbol is; target_split: likewise.
        source_normalization: Unicode form "none", "NFC", "NFD" or "NFKD"; target_normalization: likewise.
        batch_size: see `DataModule`.
    """

    def __init__(
        self,
        train_file: str | None = None,
        validation_file: str | None = None,
        test_file: str | None = None,
        file: str | None = None,
        fractions: Sequence[float] = (0.8, 0.1, 0.1),
        seed: int = 0,
        source_split: Cut = "characters",
        target_split: Cut = "characters",
        source_normalization: Normalization = "none",
        target_normalization: Normalization = "none",
        batch_size: int | None = 64,
    ) -> None:
        super().__init__(batch_size)
        check_choice(get_args(Cut), source_split=source_split, target_split=target_split)
        check_choice(
            get_args(Normalization),
            source_normalization=source_normalization,
            target_normalization=target_normalization,
        )
        self.files = TextParts(train_file, validation_file, test_file, file, fractions, seed)
        self.source = Notation(source_split, source_normalization)
        self.target = Notation(target_split, target_normalization)

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
