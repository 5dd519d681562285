"""Letters to phones: the CMU Pronouncing Dictionary."""

from collections.abc import Sequence
from string import ascii_lowercase

from attention_lab.constructor_options import options_of
from attention_lab.data.dictionary import dictionary_file, read_dictionary, split_words
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.parts import Parts
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.packaged import CMUDictSpec
from attention_lab.data.transduction import Example, TransductionData

VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
STRESS_MARKS = str.maketrans("", "", "012")


class CMUDict(TransductionData):
    """English words, letter by letter, to their phones (ARPAbet); 125,000 words.

    The words are ordered by a hash; the first `test_size` are the test part, the next `validation_size` the
    validation part and the next `size` the training part. A part therefore does not change with the sizes of
    later parts, and no word is in two parts. In training, every pronunciation is an example.

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

    def examples(self) -> Parts[list[Example]]:
        """Read and split the dictionary."""
        words = read_dictionary(dictionary_file())
        parts = split_words(words, self.spec.size, self.spec.validation_size, self.spec.test_size)
        counted = None if self.spec.references == "all" else 1

        def pairs(part: list[str], most: int | None) -> list[Example]:
            return [
                Example(self._letters.tokens(word), self._phones.tokens(self._unstressed(one)))
                for word in part
                for one in words[word][:most]
            ]

        return Parts(pairs(parts.train, None), pairs(parts.validation, counted), pairs(parts.test, counted))

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The codec of all letters and phones, including those not in training."""
        marks = "012" if self.spec.stress else [""]
        phones = sorted([*CONSONANTS.split(), *(vowel + mark for vowel in VOWELS.split() for mark in marks)])
        return TransductionCodec(
            Tokenizer(self._letters, Vocabulary(list("'" + ascii_lowercase))),
            Tokenizer(self._phones, Vocabulary(phones)),
        )

    def _unstressed(self, pronunciation: str) -> str:
        return pronunciation if self.spec.stress else pronunciation.translate(STRESS_MARKS)
