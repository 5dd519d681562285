"""From text to symbols (`Notation`), from symbols to ids (`Vocabulary`), and both at once (`Tokenizer`)."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.sizes import BOS, EOS, PAD, UNK

SPECIALS = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}

Cut = Literal["characters", "spaces"]
Normalization = Literal["none", "NFC", "NFD", "NFKD"]
Ids = Sequence[int] | Tensor


@dataclass(frozen=True)
class Notation:
    """How one side of the data is split into symbols.

    `split` splits a text into characters or at white space; `normalization` is a Unicode form, applied
    first (NFD makes an accent a separate symbol).
    """

    split: Cut
    normalization: Normalization = "none"
    lowercase: bool = False

    def tokens(self, text: str) -> tuple[str, ...]:
        """The symbols of `text`."""
        if self.lowercase:
            text = text.lower()
        if self.normalization != "none":
            text = unicodedata.normalize(self.normalization, text)
        return tuple(text) if self.split == "characters" else tuple(text.split())

    def text(self, tokens: Iterable[str]) -> str:
        """The text that consists of `tokens`."""
        return ("" if self.split == "characters" else " ").join(tokens)


@dataclass
class Vocabulary:
    """Symbols with ids from 4 on; 0 to 3 are padding, begin, end and unknown (`attention_lab.sizes`)."""

    symbols: list[str]

    def __post_init__(self) -> None:
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, start=len(SPECIALS))}

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]]) -> Self:
        """The vocabulary of all symbols in `sequences`, sorted."""
        return cls(sorted(set(chain.from_iterable(sequences))))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.symbols)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of `tokens`; `UNK` for a symbol that is not in the vocabulary."""
        return [self._ids.get(token, UNK) for token in tokens]

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

    def encode(self, text: str, place: str) -> list[int]:
        """The ids of `text`, without `EOS`. Raises LabError, naming `place`, if there are none."""
        if not text.strip():
            raise LabError(f"{place}: the line is empty; at least one symbol is needed")
        return self.vocabulary.ids(self.notation.tokens(text.strip("\r\n")))

    def unseen(self, text: str) -> list[str]:
        """The symbols of `text` that are not in the vocabulary, each once."""
        tokens = self.notation.tokens(text.strip("\r\n"))
        return list(dict.fromkeys(one for one in tokens if self.vocabulary.ids([one]) == [UNK]))

    def decode(self, ids: Ids) -> str:
        """The text before the first `EOS` or `PAD`."""
        content = takewhile(lambda number: number not in (EOS, PAD), _integers(ids))
        return self.notation.text(self.vocabulary.symbol(number) for number in content)

    def labels(self, ids: Ids) -> list[str]:
        """One label for each step before the first `PAD`; the end is shown as `</s>`."""
        return [self.vocabulary.symbol(number) for number in takewhile(lambda n: n != PAD, _integers(ids))]

    def state(self) -> dict[str, Any]:
        """Plain values from which `from_state` makes an equal tokenizer."""
        return {"symbols": self.vocabulary.symbols, **asdict(self.notation)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The tokenizer that gave this `state`."""
        notation = {name: value for name, value in state.items() if name != "symbols"}
        return cls(Notation(**notation), Vocabulary(state["symbols"]))


def _integers(ids: Ids) -> list[int]:
    return cast("list[int]", torch.as_tensor(ids).tolist())
