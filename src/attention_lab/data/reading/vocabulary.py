"""From text to symbols (`Notation`), from symbols to ids (`Vocabulary`), and both at once (`Tokenizer`)."""

import re
import reprlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby, takewhile
from sys import intern
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from attention_lab.data.subwords import Splitter, check_pieces, join
from attention_lab.errors import LabError
from attention_lab.special_symbols import BOS, EOS, PAD, UNK

if TYPE_CHECKING:  # files are read before torch is imported
    from torch import Tensor

SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}

TextSplit = Literal["characters", "spaces"]
AnySplit = Literal["characters", "spaces", "lemma_tags", "subwords"]
Normalization = Literal["none", "NFC", "NFD", "NFKD"]
Ids: TypeAlias = "Sequence[int] | Tensor"
LONGEST_SYMBOL = 10_000
"""Maximum number of characters of a symbol: a model writes it in four bytes, and any number of times."""
MOST_ACCENTS = 1000
"""Maximum number of accents in a row: normalization sorts n of them in n^2 steps."""
MOST_GROWTH = 4
"""Maximum growth of a text by normalization, unless it is short. NFKD turns U+FDFA, 3 bytes in a file, into
18 characters, which take more memory than a file of that size should need."""
_SHORT = 100


TAG, KNOWN = ";", "="
"""Prefixes of tags: those of the word to generate, and those of a known form of the same lemma."""


def lemma_and_tags(text: str) -> tuple[str, ...]:
    """The symbols of `lemma<TAB>tag;tag`: each tag prefixed with `;`, then the letters of the lemma.

    Known forms of the lemma may follow, as `<TAB>form<TAB>tag;tag`; their tags are prefixed with `=`. A
    letter is one character and a tag at least two, so no tag can be mistaken for a letter.

    Raises:
        LabError: a lemma or form is missing, or a tag is empty.
    """
    fields = text.split("\t")
    if len(fields) % 2 or not all(field.strip() for field in fields):
        raise LabError("a line is lemma<TAB>tags; known forms may follow, each as <TAB>form<TAB>tags")
    symbols: list[str] = []
    for number, (word, tags) in enumerate(zip(fields[::2], fields[1::2], strict=True)):
        names = [tag.strip() for tag in tags.split(";")]
        if not all(names):
            raise LabError(f"a tag is empty in {reprlib.repr(tags)}; write tags as N;PL")
        symbols += [f"{KNOWN if number else TAG}{name}" for name in names]
        symbols += characters(word)
    return tuple(symbols)


def characters(text: str) -> tuple[str, ...]:
    """The characters of a text; equal characters are one object, because each object takes 80 bytes."""
    return tuple(text) if text.isascii() else tuple(map(intern, text))


def lemma_tags_text(tokens: Iterable[str]) -> str:
    """Undo `lemma_and_tags`."""
    fields: list[str] = []
    for tagged, group in groupby(tokens, key=is_tag):
        symbols = list(group)
        # The tags of a word come before it here, and after it in the text.
        fields.append(";".join(symbol[1:] for symbol in symbols) if tagged else "".join(symbols))
    for start in range(0, len(fields) - 1, 2):
        fields[start], fields[start + 1] = fields[start + 1], fields[start]
    return "\t".join(fields)


def check_accents(text: str) -> None:
    """Raise LabError if a text has more than `MOST_ACCENTS` accents in a row."""
    if len(text) <= MOST_ACCENTS or text.isascii():
        return
    accents = [one for one in set(text) if unicodedata.combining(unicodedata.normalize("NFKD", one)[0])]
    runs = re.finditer(f"[{''.join(accents)}]+", text) if accents else ()
    if any(len(run[0]) > MOST_ACCENTS for run in runs):
        raise LabError(f"more than {MOST_ACCENTS} accents on one letter")


def is_tag(symbol: str) -> bool:
    """Whether a symbol of `lemma_and_tags` is a tag, not a letter."""
    return len(symbol) > 1 and symbol[0] in (TAG, KNOWN)


@dataclass(frozen=True)
class Notation:
    """How one side of the data is split into symbols.

    `split` splits a text into characters or at white space, or reads `lemma<TAB>tag;tag` (see
    `lemma_and_tags`). `normalization` is a Unicode form that is applied first (NFD makes an accent a separate
    symbol). Subwords are pieces of words, learned from the training texts: see `data.subwords`.
    `right_to_left` reverses the symbols; with `lemma_tags`, those of each word.
    """

    split: AnySplit
    normalization: Normalization = "none"
    lowercase: bool = False
    alphabet: str = ""
    merges: list[str] = field(default_factory=list)
    right_to_left: bool = False

    def __post_init__(self) -> None:
        if self.split == "subwords":
            check_pieces(self.alphabet, self.merges)

    @cached_property
    def _splitter(self) -> Splitter:
        return Splitter(self.alphabet, self.merges)

    def tokens(self, text: str) -> tuple[str, ...]:
        """The symbols of `text`."""
        return self._ordered(self._tokens(self.normalized(text)))

    def _tokens(self, text: str) -> tuple[str, ...]:
        if self.split == "subwords":
            return self._splitter(text)
        if self.split == "lemma_tags":
            return lemma_and_tags(text)
        return characters(text) if self.split == "characters" else tuple(map(intern, text.split()))

    def _ordered(self, tokens: tuple[str, ...]) -> tuple[str, ...]:
        """Reorder symbols from the order of the text to that of reading and writing, or back."""
        if not self.right_to_left:
            return tokens
        groups = [(stays, list(group)) for stays, group in groupby(tokens, key=self.keeps_place)]
        return tuple(chain.from_iterable(part if stays else part[::-1] for stays, part in groups))

    def keeps_place(self, symbol: str) -> bool:
        """Whether a symbol keeps its place when the text is reversed, as tags do."""
        return self.split == "lemma_tags" and is_tag(symbol)

    def normalized(self, text: str) -> str:
        """The normalised text, ready to be split.

        Raises:
            LabError: it has too many accents in a row, or grows too much.
        """
        if self.lowercase:
            text = text.lower()
        if self.normalization == "none":
            return text
        check_accents(text)
        normalized = unicodedata.normalize(self.normalization, text)
        if len(normalized) > MOST_GROWTH * len(text) + _SHORT:
            raise LabError(
                f"{reprlib.repr(text)}: normalization={self.normalization} makes {len(normalized):,} "
                f"characters of {len(text):,}, more than {MOST_GROWTH} times as many: choose NFC"
            )
        return normalized

    def text(self, tokens: Iterable[str]) -> str:
        """The text that consists of `tokens`."""
        tokens = self._ordered(tuple(tokens))
        if self.split == "lemma_tags":
            return lemma_tags_text(tokens)
        if self.split == "subwords":
            return join(tokens)
        return ("" if self.split == "characters" else " ").join(tokens)


def check_symbols(symbols: Iterable[str]) -> None:
    """Raise LabError if a symbol is not text, or has more than `LONGEST_SYMBOL` characters."""
    for symbol in symbols:
        if type(symbol) is not str:  # the hashes of other values could be chosen so that they collide
            raise LabError(f"a symbol is of the type {type(symbol).__name__}, not text")
        if len(symbol) > LONGEST_SYMBOL:
            raise LabError(
                f"the symbol {reprlib.repr(symbol)} has {len(symbol):,} characters, "
                f"more than {LONGEST_SYMBOL:,}: split it"
            )


@dataclass
class Vocabulary:
    """Symbols with ids from 4 on; 0 to 3 are padding, begin, end and unknown (`special_symbols`)."""

    symbols: list[str]

    def __post_init__(self) -> None:
        check_symbols(self.symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, start=len(SPECIALS))}

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]]) -> Self:
        """The vocabulary of all symbols in `sequences`, sorted."""
        symbols = set(chain.from_iterable(sequences))
        if not all(isinstance(one, str) for one in symbols):  # they could not be sorted
            return cls(list(symbols))
        return cls(sorted(symbols))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of `tokens`; `UNK` for a symbol that is not in the vocabulary."""
        return [self._ids.get(token, UNK) for token in tokens]

    def unseen(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """The `tokens` that are not in the vocabulary, in order."""
        return tuple(token for token in tokens if token not in self._ids)

    def extended(self, symbols: Iterable[str]) -> Self:
        """The vocabulary with any missing `symbols` added at its end, sorted."""
        return type(self)([*self.symbols, *sorted(set(self.unseen(symbols)))])

    def in_other(self, other: "Vocabulary") -> tuple[int, ...]:
        """For each id, the id of the same symbol in the other vocabulary, or `PAD` if it lacks the symbol."""
        return (PAD,) * len(SPECIALS) + tuple(other._ids.get(symbol, PAD) for symbol in self.symbols)

    def symbol(self, number: int) -> str:
        """The symbol with this id."""
        return SPECIALS[number] if number in SPECIALS else self.symbols[number - len(SPECIALS)]


@dataclass(frozen=True)
class Tokenizer:
    """One side of the data: text to ids and back."""

    notation: Notation
    vocabulary: Vocabulary

    @classmethod
    def of(cls, notation: Notation, sequences: Iterable[Iterable[str]]) -> Self:
        """The tokenizer whose vocabulary is all symbols in `sequences`."""
        return cls(notation, Vocabulary.of(sequences))

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without `EOS`. Raises LabError if it cannot be read, or there are none."""
        if not text.strip():
            raise LabError("empty; at least one symbol is needed")
        return self.ids(self.tokens(text))

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of `tokens`: `UNK` for unknown letters and other symbols, `BOS` for unknown tags."""
        return [
            BOS if number == UNK and self.notation.keeps_place(token) else number
            for token, number in zip(tokens, self.vocabulary.ids(tokens), strict=True)
        ]

    def tokens(self, text: str) -> tuple[str, ...]:
        """The symbols of one line."""
        return self.notation.tokens(text.strip("\r\n"))

    def decode(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """The text before the first `EOS` or `PAD`; `unseen` are the symbols of its unknown ids, if given."""
        content = takewhile(lambda number: number not in (EOS, PAD), _integers(ids))
        return self.notation.text(self._symbols(content, unseen))

    def labels(self, ids: Ids, unseen: Sequence[str] = ()) -> list[str]:
        """Label each step before the first `PAD`; the end is shown as `</s>`; `unseen` as in `decode`."""
        content = takewhile(lambda number: number != PAD, _integers(ids))
        return list(self._symbols(content, unseen))

    def _symbols(self, ids: Iterable[int], unseen: Sequence[str]) -> Iterator[str]:
        rest, unknown = iter(unseen), self._unknown
        for number in ids:
            yield next(rest, SPECIALS[UNK]) if number in unknown else self.vocabulary.symbol(number)

    @property
    def _unknown(self) -> tuple[int, ...]:
        """The ids of unknown symbols."""
        return (UNK, BOS) if self.notation.split == "lemma_tags" else (UNK,)

    @property
    def left_to_right(self) -> Self:
        """The same tokenizer, but reading and writing from left to right."""
        return replace(self, notation=replace(self.notation, right_to_left=False))

    def state(self) -> dict[str, Any]:
        """Plain values from which `from_state` makes an equal tokenizer."""
        kept = asdict(self.notation)
        if self.notation.split != "subwords":
            del kept["alphabet"], kept["merges"]
        if not self.notation.right_to_left:
            del kept["right_to_left"]  # keeps the state equal to that of earlier versions
        return {"symbols": self.vocabulary.symbols, **kept}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The tokenizer with this `state`."""
        notation = {name: value for name, value in state.items() if name != "symbols"}
        return cls(Notation(**notation), Vocabulary(state["symbols"]))


def _integers(ids: Ids) -> list[int]:
    return [int(number) for number in ids] if isinstance(ids, Sequence) else ids.tolist()
