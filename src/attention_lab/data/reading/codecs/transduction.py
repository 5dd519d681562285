"""The codec of pairs of sequences of symbols."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from attention_lab.data.reading.batches import TransductionBatch, Unseen, unlabelled
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines
from attention_lab.data.reading.files import MOST_SYMBOLS
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.vocabulary import TAG, Ids, Tokenizer, is_tag
from attention_lab.errors import LabError
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS


@dataclass(frozen=True)
class TransductionCodec(BaseCodec):
    """A tokenizer for each side, source and target."""

    KIND = "transduction"
    source: Tokenizer
    target: Tokenizer

    @property
    def sizes(self) -> TransductionSizes:
        """The sizes of both vocabularies, the number of tags, and the symbols that the vocabularies share."""
        source, target = self.source.vocabulary, self.target.vocabulary
        has_tags = self.source.notation.split == "lemma_tags"
        tags = sum(has_tags and is_tag(symbol) and symbol[0] == TAG for symbol in source.symbols)
        return TransductionSizes(len(source), len(target), tags, source.in_other(target))

    def problem(self) -> str:
        """See `BaseCodec`."""
        same = self.source.notation.right_to_left == self.target.notation.right_to_left
        return "" if same else "reads and writes in different directions"

    @property
    def left_to_right(self) -> Self:
        """The same codec, but reading and writing from left to right."""
        return replace(self, source=self.source.left_to_right, target=self.target.left_to_right)

    def encode(self, lines: Sequence[str], first: int = 1) -> TransductionBatch:
        """Encode source lines; the target is only `EOS`, without references or alignment.

        Raises:
            LineError: a line has more than `MOST_SYMBOLS` symbols.
        """
        sources = Ragged(encode_lines(lines, first, self._source))
        unseen = tuple(self.unseen(self.source.tokens(line)) for line in lines)
        return unlabelled(sources[torch.arange(len(lines))], sources.lengths, unseen)

    def _source(self, line: str) -> list[int]:
        ids = self.source.encode(line)
        if len(ids) > MOST_SYMBOLS:
            raise LabError(
                f"{len(ids):,} symbols, but an input may have at most {MOST_SYMBOLS:,}: "
                "split it into several lines"
            )
        return [*ids, EOS]

    def unseen(self, source: Sequence[str], references: Iterable[Sequence[str]] = ()) -> Unseen:
        """The symbols of an example that are not in the vocabularies."""
        missing = self.source.vocabulary.unseen(source)
        keeps_place = self.source.notation.keeps_place
        return Unseen(
            missing,
            tuple(self.target.vocabulary.unseen(one) for one in references),
            tuple(symbol for symbol in missing if not keeps_place(symbol)),
        )

    def decode(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """Target ids as text, up to the first `EOS`; `unseen` as in `Tokenizer.decode`."""
        return self.target.decode(ids, unseen)

    def source_text(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """Source ids as text, up to the first `EOS`; `unseen` as in `Tokenizer.decode`."""
        return self.source.decode(ids, unseen)

    def source_labels(self, ids: Ids, unseen: Sequence[str] = ()) -> list[str]:
        """Label each source step, including `</s>` but not padding; `unseen` as in `Tokenizer.decode`."""
        return self.source.labels(ids, unseen)
