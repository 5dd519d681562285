"""Morphological inflection: from a lemma and morphological tags to the inflected form."""

from collections.abc import Sequence

from attention_lab.constructor_options import options_of
from attention_lab.data.file_warnings.format_hints import header_hints, quotes_hint, swapped_tags_hint
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.inflection.hallucination import hallucinate
from attention_lab.data.inflection.letter_alignment import align_letters
from attention_lab.data.inflection.paradigms import Paradigms
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.files import Row, blame, read_once
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import KNOWN, TAG, Tokenizer, Vocabulary, is_tag
from attention_lab.data.specs.files import InflectionSpec
from attention_lab.data.transduction import Example, TransductionData
from attention_lab.errors import LabError


class Inflection(TransductionData):
    """Files of `lemma<TAB>form<TAB>tags` lines (UTF-8), the tags separated by `;`, as in SIGMORPHON 2017.

    A source is the tags, one symbol each, followed by the letters of the lemma; the target is the letters of
    the form. If a single file is split, all forms of a lemma stay together. Repeating a lemma and its tags in
    validation or test adds a reference.

    Source and target share the letters of all lemmas and forms in training, so that each of these letters can
    be generated; see `TransductionSizes.copies`. Symbols that do not occur in training are read as unknown.

    Args:
        options: see `InflectionSpec`.
    """

    files: InflectionSpec

    @options_of(InflectionSpec)
    def __init__(self, spec: InflectionSpec) -> None:
        super().__init__(spec.batch_size)
        self.files = spec
        self.source, self.target = spec.source, spec.target

    def examples(self) -> Splits[list[Example]]:
        """Read the files."""
        rows = read_once(self.files)
        self.hints.update(header_hints(rows) | quotes_hint(rows) | swapped_tags_hint(rows))
        if self.files.known_forms and self.files.test_only:
            raise LabError(
                f"data.known_forms={self.files.known_forms} needs the training examples: give "
                "data.train_file and data.validation_file as well as data.test_file"
            )
        paradigms = Paradigms(rows.train, self.files.known_forms)
        splits = rows.map(lambda split: [self._example(row, paradigms.text(row)) for row in split])
        self.check_lengths(rows, splits)
        keyed = splits.map(lambda split: [Keyed(tuple(one.source), tuple(one.target)) for one in split])
        self.shared = shared_examples(keyed, self.files.names, "form")
        plain = [self._example(row, f"{row.first}\t{row.third}") for row in rows.train]
        made = hallucinate(plain, self.files.hallucinate, self.files.seed)
        train = [self._aligned(example) for example in [*splits.train, *made]]
        return splits._replace(train=train)

    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The letters and tags of the training split."""
        sources = {symbol for example in train for symbol in example.source}
        tags = {symbol for symbol in sources if is_tag(symbol)}
        if self.files.known_forms:
            tags |= {KNOWN + symbol[1:] for symbol in tags}
        letters = (sources - tags) | {symbol for example in train for symbol in example.target}
        known_first = sorted(tags, key=lambda tag: (tag[0] == TAG, tag))  # then those of the word to generate
        return TransductionCodec(
            Tokenizer(self.source, Vocabulary([*sorted(letters), *known_first])),
            Tokenizer(self.target, Vocabulary(sorted(letters))),
        )

    def _aligned(self, example: Example) -> Example:
        """Add the lemma letter that each letter of the form comes from, for `task.guidance`."""
        return example._replace(alignment=align_letters(example.source, example.target))

    def _example(self, row: Row, text: str) -> Example:
        with blame(row.place):
            source = self.source.tokens(text)
        return Example(source, self.target.tokens(row.second))
