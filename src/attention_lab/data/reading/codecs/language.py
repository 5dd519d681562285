"""The codec of language models: text to sequences of symbols, and back."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attention_lab.data.reading.batches import LanguageBatch
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.vocabulary import Ids, Tokenizer
from attention_lab.sizes import LanguageSizes
from attention_lab.special_symbols import BOS

BREAKS = str.maketrans({"\n": "↵", "\t": "⇥"})
"""Visible substitutes for symbols that would break a line or a table."""


@dataclass(frozen=True)
class LanguageCodec(BaseCodec):
    """A tokenizer and the length of sequences.

    Attributes:
        tokenizer: text to ids and back.
        length: the largest number of symbols read at once, including `BOS`.
        ends: whether a sequence has an end: true for words, false for blocks of a long text.
    """

    KIND = "language"

    tokenizer: Tokenizer
    length: int
    ends: bool

    @property
    def sizes(self) -> LanguageSizes:
        """The size of the vocabulary and the length."""
        return LanguageSizes(len(self.tokenizer.vocabulary), self.length)

    def encode(self, lines: Sequence[str], first: int = 1) -> LanguageBatch:
        """Encode prompts, one per line; a line may be empty."""
        tokens = Ragged(encode_lines(lines, first, lambda line: [BOS, *self._ids(line.strip("\r\n"))]))
        rows = torch.arange(len(lines))
        return LanguageBatch(tokens[rows], tokens.lengths, tokens.lengths, rows + first)

    def decode(self, ids: Ids) -> str:
        """The text up to the first `EOS`, without `BOS`."""
        numbers = torch.as_tensor(ids)
        return self.tokenizer.decode(numbers[numbers != BOS])

    def shown(self, ids: Ids) -> str:
        """`decode` as a single line: line breaks are shown as ↵ and tabs as ⇥."""
        return self.decode(ids).translate(BREAKS)

    def labels(self, ids: Ids) -> list[str]:
        """A label for each step, including `<s>` and `</s>` but not padding."""
        return [label.translate(BREAKS) for label in self.tokenizer.labels(ids)]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.vocabulary.ids(self.tokenizer.notation.tokens(text))
