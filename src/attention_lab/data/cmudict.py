"""Letters to phones: the CMU Pronouncing Dictionary."""

from collections.abc import Sequence

from attention_lab.constructor_options import options_of
from attention_lab.data.dictionary import LETTERS, dictionary_file, read_dictionary, split_words
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.packaged import CMUDictSpec
from attention_lab.data.transduction import Example, TransductionData

VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
STRESS_MARKS = str.maketrans("", "", "012")


class CMUDict(TransductionData):
    """English words, letter by letter, to their phones (ARPAbet); 125,000 words.

    The words are ordered by a hash; the first `test_size` are the test split, the next `validation_size` the
    validation split and the next `size` the training split. A split therefore does not depend on the sizes of
    later splits, and no word is in two splits. In training, every pronunciation is an example.

    An output is correct if it is any of the pronunciations in the dictionary. With `references="first"`, only
    the first is correct.

    Args:
        options: see `CMUDictSpec`.
    """

    @options_of(CMUDictSpec)
    def __init__(self, spec: CMUDictSpec) -> None:
        super().__init__(spec.batch_size)
        self.spec = spec
        self._letters = Notation("characters", lowercase=True, right_to_left=spec.right_to_left)
        self._phones = Notation("spaces", right_to_left=spec.right_to_left)

    def examples(self) -> Splits[list[Example]]:
        """Read and split the dictionary."""
        words = read_dictionary(dictionary_file())
        splits = split_words(words, self.spec.size, self.spec.validation_size, self.spec.test_size)
        counted = None if self.spec.references == "all" else 1

        def pairs(split: list[str], most: int | None) -> list[Example]:
            return [
                Example(self._letters.tokens(word), self._phones.tokens(self._unstressed(one)))
                for word in split
                for one in words[word][:most]
            ]

        return Splits(
            pairs(splits.train, None), pairs(splits.validation, counted), pairs(splits.test, counted)
        )

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The codec of all letters and phones, including those not in training."""
        marks = "012" if self.spec.stress else [""]
        phones = sorted([*CONSONANTS.split(), *(vowel + mark for vowel in VOWELS.split() for mark in marks)])
        return TransductionCodec(
            Tokenizer(self._letters, Vocabulary(list(LETTERS))),
            Tokenizer(self._phones, Vocabulary(phones)),
        )

    def _unstressed(self, pronunciation: str) -> str:
        return pronunciation if self.spec.stress else pronunciation.translate(STRESS_MARKS)
