"""Data sets for language models: Words, and Text for your own files."""

from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from attention_lab.constructor_options import options_of
from attention_lab.data.dictionary import LETTERS, dictionary_file, read_dictionary, split_words
from attention_lab.data.file_warnings.overlaps import shared_passages
from attention_lab.data.file_warnings.unseen_symbols import Terms, unseen_in_texts
from attention_lab.data.reading.codecs import LanguageCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import LanguageSplit, Split
from attention_lab.data.reading.files import read_once
from attention_lab.data.reading.returned_checks import require, require_lists
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.files import TextSpec
from attention_lab.data.specs.packaged import WordsSpec
from attention_lab.errors import LabError
from attention_lab.sizes import LanguageSizes
from attention_lab.special_symbols import BOS, EOS

Symbols = Sequence[str]


class LanguageData(DataModule):
    """Sequences of symbols; a model learns to predict each symbol from the symbols before it."""

    codec: LanguageCodec
    sizes: LanguageSizes

    @abstractmethod
    def sequences(self) -> Splits[list[Symbols]]:
        """Read the sequences."""

    @abstractmethod
    def make_codec(self, sequences: Splits[list[Symbols]]) -> LanguageCodec:
        """The codec that fits these sequences; its symbols are those of the training split."""

    def find_unseen(self, sequences: Splits[list[Symbols]]) -> Splits[str]:
        """See `DataModule.unseen`; empty by default."""
        return Splits("", "", "")

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        returned: Splits[list[Symbols]] = self.sequences()
        sequences = require_lists(self, "sequences", returned, Sequence, "sequences of symbols")  # type: ignore[type-abstract]
        own = require(self, "make_codec", self.make_codec(sequences), LanguageCodec, "a LanguageCodec")
        codec = self.given(LanguageCodec) or own
        if _form(codec) != _form(own):
            raise LabError(f"the model needs {_form(codec)}, but this is {_form(own)}")
        self.codec, self.sizes = codec, codec.sizes
        self.unseen = self.find_unseen(sequences)
        end = [EOS] if codec.ends else []
        ids = codec.tokenizer.vocabulary.ids
        # A model reads BOS and all symbols but the last, which may be EOS.
        longest = max(map(len, chain(*sequences)), default=0) + len(end)
        if longest > codec.length:
            name = type(self).__name__
            raise LabError(
                f"{name}: the longest sequence needs a length of {longest}, but the codec's is {codec.length}"
            )
        return sequences.map(
            lambda split: LanguageSplit([array("i", [BOS, *ids(symbols), *end]) for symbols in split])
        )


class Words(LanguageData):
    """English words, letter by letter, from the CMU Pronouncing Dictionary: the model learns to invent words.

    They are split like those of `CMUDict`: no word is in two splits.

    Args:
        options: see `WordsSpec`.
    """

    @options_of(WordsSpec)
    def __init__(self, spec: WordsSpec) -> None:
        super().__init__(spec.batch_size)
        self.counts = (spec.size, spec.validation_size, spec.test_size)

    def sequences(self) -> Splits[list[Symbols]]:
        """Read and split the dictionary."""
        words = split_words(read_dictionary(dictionary_file()), *self.counts)
        return words.map(lambda split: list(split))

    def make_codec(self, sequences: Splits[list[Symbols]]) -> LanguageCodec:
        """The codec of all letters, including letters that do not occur in training."""
        tokenizer = Tokenizer(Notation("characters", lowercase=True), Vocabulary(list(LETTERS)))
        return LanguageCodec(tokenizer, 1 + max(map(len, chain(*sequences))), ends=True)


class Text(LanguageData):
    """Text files (UTF-8), or one file that is split by position, with the training split first.

    The text of each split is cut into consecutive blocks. Every block starts with `BOS`, without any memory
    of the previous one, so the first symbols of a block are harder to predict than the rest.

    Args:
        options: see `TextSpec`.
    """

    @options_of(TextSpec)
    def __init__(self, spec: TextSpec) -> None:
        super().__init__(spec.batch_size)
        self.files, self.unit = spec, spec.unit
        self.notation = spec.notation
        self.block_size, self.min_count = spec.block_size, spec.min_count

    def sequences(self) -> Splits[list[Symbols]]:
        """Read and split the files, and cut each split into blocks."""
        splits = read_once(self.files)
        self.shared = shared_passages(splits, self.files.names, self.unit)
        return splits.map(lambda symbols: list(self._blocks(symbols)))

    def make_codec(self, sequences: Splits[list[Symbols]]) -> LanguageCodec:
        """The codec of all symbols that are frequent enough in training."""
        counts = Counter(chain.from_iterable(sequences.train))
        kept = sorted(symbol for symbol, count in counts.items() if count >= self.min_count)
        if not kept and not self.files.test_only:
            file = self.files.train_file or self.files.file
            raise LabError(
                f"{file}: no symbol occurs at least data.min_count={self.min_count} times in training"
            )
        return LanguageCodec(Tokenizer(self.notation, Vocabulary(kept)), self.block_size, ends=False)

    def find_unseen(self, sequences: Splits[list[Symbols]]) -> Splits[str]:
        """See `LanguageData`."""
        vocabulary = self.codec.tokenizer.vocabulary
        rare = f"occur{{s}} fewer than data.min_count={self.min_count} times in training"
        reason = Terms().reason if self.min_count == 1 else rare
        terms = Terms(self.unit.removesuffix("s"), self.unit, reason=reason)
        return unseen_in_texts(sequences, vocabulary, self.files, terms)

    def _blocks(self, symbols: Symbols) -> Iterator[Symbols]:
        for start in range(0, len(symbols), self.block_size):
            yield symbols[start : start + self.block_size]


def _form(codec: LanguageCodec) -> str:
    """The properties that a model and its data must share, as command-line options."""
    if codec.ends:
        return "data=sentences" if codec.tokenizer.notation.split == "spaces" else "data=words"
    return (
        f"data=text with data.unit={'words' if codec.tokenizer.notation.split == 'spaces' else 'characters'}"
    )
