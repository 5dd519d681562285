"""Data sets of pairs of sequences in your own files: Pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from attention_lab.constructor_options import options_of
from attention_lab.data.file_warnings.format_hints import header_hints, quotes_hint, space_hint
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.files import Row, read_once
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.files import PairsSpec
from attention_lab.data.subwords import learn_pieces, pieces_of
from attention_lab.data.transduction import Example, TransductionData


class Pairs(TransductionData):
    """Files of `source<TAB>target` lines (UTF-8), or one file that is split at random by its sources.

    Repeating a source in validation or test adds a reference. Symbols that do not occur in training are read
    as unknown.

    Args:
        options: see `PairsSpec`.
    """

    files: PairsSpec

    @options_of(PairsSpec)
    def __init__(self, spec: PairsSpec) -> None:
        super().__init__(spec.batch_size)
        self.files = spec
        self.source, self.target = spec.source, spec.target

    def examples(self) -> Splits[list[Example]]:
        """Read the files."""

        def example(row: Row) -> Example:
            return Example(self.source.tokens(row.first), self.target.tokens(row.second))

        rows = read_once(self.files)
        self.hints.update(header_hints(rows) | quotes_hint(rows))
        self.source = self._with_pieces("source", [row.first for row in rows.train])
        self.target = self._with_pieces("target", [row.second for row in rows.train])
        if self.given(TransductionCodec) is None:
            self._add_hint("source", [row.first for row in rows.train])
            self._add_hint("target", [row.second for row in rows.train])
        splits = rows.map(lambda split: [example(row) for row in split])
        self.check_lengths(rows, splits)
        keyed = splits.map(lambda split: [Keyed(tuple(one.source), tuple(one.target)) for one in split])
        self.shared = shared_examples(keyed, self.files.names, "target")
        return splits

    def _add_hint(self, side: Literal["source", "target"], texts: Sequence[str]) -> None:
        if getattr(self, side).split == "characters" and (hint := space_hint(texts, side)):
            self.hints[f"data.{side}_split"] = hint

    def _with_pieces(self, side: Literal["source", "target"], texts: Sequence[str]) -> Notation:
        """A side's notation, with the subwords of the given codec, or learned from the training texts."""
        notation: Notation = getattr(self, side)
        if notation.split != "subwords":
            return notation
        codec = self.given(TransductionCodec)
        given = None if codec is None else getattr(codec, side).notation
        if given is not None and given.split == "subwords":
            return replace(notation, alphabet=given.alphabet, merges=given.merges)
        normalized = [notation.normalized(text) for text in texts]
        alphabet, merges = learn_pieces(normalized, self.files.subwords, f"data.{side}_split=subwords")
        return replace(notation, alphabet=alphabet, merges=merges)

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The symbols of the training split."""
        return TransductionCodec(
            _tokenizer(self.source, (example.source for example in train)),
            _tokenizer(self.target, (example.target for example in train)),
        )


def _tokenizer(notation: Notation, sequences: Iterable[Sequence[str]]) -> Tokenizer:
    """All symbols of the training split; for subwords, all pieces: other texts may split differently."""
    if notation.split == "subwords":
        return Tokenizer(notation, Vocabulary(pieces_of(notation.alphabet, notation.merges)))
    return Tokenizer.of(notation, sequences)
