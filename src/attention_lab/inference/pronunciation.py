"""Pronounce words with a dictionary if it has them, otherwise with a model that turns letters into phones."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.errors import LabError
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.inference.words import SPELLED
from attention_lab.tasks.errors.text_limit import GROWTH, MOST_TEXT, outputs_too_long
from attention_lab.tasks.sequence_generation import SequencePredictor

Pronunciations = Sequence[tuple[str, float]]
"""Phones separated by spaces, and their score: the logarithm of a probability."""

_NAMES = (
    "a EY|b B IY|c S IY|d D IY|e IY|f EH F|g JH IY|h EY CH|i AY|j JH EY|k K EY|l EH L|m EH M|n EH N|o OW|"
    "p P IY|q K Y UW|r AA R|s EH S|t T IY|u Y UW|v V IY|w D AH B AH L Y UW|x EH K S|y W AY|z Z IY"
)
LETTER_NAMES = {name[0]: name[2:] for name in _NAMES.split("|")}
"""The names of letters, for spelling abbreviations, in the phones of the CMU dictionary without stress."""
_REMEMBERED = 200_000  # parts, of about `MOST_TEXT` characters in all at most


class Pronouncer:
    """Pronounces parts of words, each part only once.

    Args:
        model: converts letters to phones.
        dictionary: pronunciations of words, which take precedence; their stress is removed if the model has
            no stress.
        n: the largest number of pronunciations for each word.

    Attributes:
        letters: the letters that the model reads.

    Raises:
        LabError: the model reads something other than letters.
    """

    def __init__(
        self, model: TrainedModel[SequencePredictor], dictionary: Mapping[str, Sequence[str]], n: int = 1
    ) -> None:
        codec = model.codec
        if not isinstance(codec, TransductionCodec) or codec.source.notation.split != "characters":
            raise LabError("g2p needs a model that reads letters, but this one reads something else")
        self.letters = frozenset(codec.source.vocabulary.symbols)
        self._phones = frozenset(codec.target.vocabulary.symbols)
        self._model, self._dictionary, self._n = model, dictionary, n
        self._remembered: dict[str, Pronunciations] = {}
        self._characters = 0  # in the remembered pronunciations

    def __call__(self, words: Sequence[Sequence[str]]) -> list[Pronunciations]:
        """The pronunciations of words, given as their parts; see `word_parts`.

        Scores of parts add up. Dictionary entries and names of letters have score 0.

        Raises:
            LabError: the pronunciations are very much longer than the words.
        """
        parts = {part for word in words for part in word}
        if len(self._remembered) + len(parts) > _REMEMBERED or self._characters > MOST_TEXT:
            self._remembered.clear()
            self._characters = 0
        new = parts - self._remembered.keys()
        known = {part: found for part in new if (found := self._looked_up(part))}
        # Words of similar length make batches with little padding.
        asked = sorted(new - known.keys(), key=lambda part: (len(part), part))
        added: dict[str, Pronunciations] = known | dict(zip(asked, self._ask(asked), strict=True))
        self._remembered |= added
        self._characters += sum(map(_characters, added.values()))
        left = MOST_TEXT + GROWTH * self._n * sum(len(part) for word in words for part in word)
        joined = []
        for word in words:
            joined.append(self._joined(word, left))
            left -= _characters(joined[-1])
        return joined

    def _ask(self, parts: list[str]) -> Iterable[Pronunciations]:
        texts = [part.removesuffix(SPELLED) for part in parts]
        if self._n == 1:
            return [[(output, 0.0)] for output in self._model.predict(texts)]
        return self._model.predict_n_best(texts, self._n)

    def _looked_up(self, part: str) -> Pronunciations:
        if part.endswith(SPELLED):
            found: Sequence[str] = [LETTER_NAMES.get(part.removesuffix(SPELLED), "")]
        else:
            found = self._dictionary.get(part) or self._dictionary.get(part.strip("'"), [])
        fitting = (self._fitting(phones) for phones in found)
        return [(phones, 0.0) for phones in dict.fromkeys(filter(None, fitting))][: self._n]

    def _fitting(self, pronunciation: str) -> str:
        """Convert a pronunciation to the model's phones; empty if that is impossible."""
        phones = pronunciation.split()
        if not self._phones.issuperset(phones):
            phones = [phone.rstrip("012") for phone in phones]
        return " ".join(phones) if self._phones.issuperset(phones) else ""

    def _joined(self, word: Sequence[str], most: int) -> Pronunciations:
        """The n best pronunciations of a word of several parts, of at most `most` characters together."""
        best = _checked(self._remembered[word[0]], most)
        for part in word[1:]:
            pairs = product(best, self._remembered[part])
            chosen = sorted(pairs, key=lambda pair: -(pair[0][1] + pair[1][1]))[: self._n]
            longer = [(f"{phones} {more}", score + another) for (phones, score), (more, another) in chosen]
            best = _checked(longer, most)
        return best


def _characters(found: Pronunciations) -> int:
    return sum(len(phones) for phones, _ in found)


def _checked(found: Pronunciations, most: int) -> Pronunciations:
    """These pronunciations. Raises LabError if they have more than `most` characters."""
    if _characters(found) > most:
        raise outputs_too_long()
    return found
