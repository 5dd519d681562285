"""The base class of data sets that map sequences to sequences."""

import reprlib
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from attention_lab.argument_checks import kind_of
from attention_lab.data.file_warnings.long_lines import check_length, long_line_hint
from attention_lab.data.file_warnings.unseen_symbols import Terms, unseen_in_files
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import Split, TransductionSplit
from attention_lab.data.reading.files import Row
from attention_lab.data.reading.returned_checks import require, require_lists
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.option_checks import check_trained_with
from attention_lab.errors import LabError
from attention_lab.machine import check_fits_in_memory
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS

MOST_REFERENCES = 1_000
"""Maximum number of targets of a source in validation or test; each example of a batch has as many slots."""
_SYMBOL = 64
"""Approximate maximum number of bytes of memory for a symbol in these slots."""


class Example(NamedTuple):
    """The symbols of one pair, and the gold source position of each target symbol, if known."""

    source: Sequence[str]
    target: Sequence[str]
    alignment: Sequence[int] = ()


class TransductionData(DataModule):
    """Pairs of sequences.

    In training, every pair is an example, and its target the only reference. In validation and test, every
    distinct source is an example, and all its targets are references; the loss uses the first.
    """

    codec: TransductionCodec
    sizes: TransductionSizes
    files: FileSpec | None = None
    """The files, if the pairs are read from the user's."""

    @abstractmethod
    def examples(self) -> Splits[list[Example]]:
        """Read or sample the pairs; their symbols are strings, sources are hashable."""

    @abstractmethod
    def make_codec(self, train: Sequence[Example]) -> TransductionCodec:
        """The codec that fits the training pairs."""

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        examples = self.examples()
        self._check(examples)
        made = self.make_codec(examples.train)
        own = require(self, "make_codec", made, TransductionCodec, "a TransductionCodec")
        self.codec = self.given(TransductionCodec) or own
        _check_notation("source", self.codec.source.notation, own.source.notation)
        _check_notation("target", self.codec.target.notation, own.target.notation)
        self.sizes = self.codec.sizes
        self.unseen = self._unseen(examples)
        names = Splits(*Splits._fields) if self.files is None else self.files.names
        return Splits(
            self._training_split(examples.train),
            self._evaluation_split(examples.validation, names.validation),
            self._evaluation_split(examples.test, names.test),
        )

    def _check(self, examples: object) -> None:
        """Raise LabError unless these are examples; a user-defined class may return anything."""
        for one in chain(*require_lists(self, "examples", examples, Example, "Example(source, target)")):
            if problem := _problem(*one):
                raise LabError(f"{type(self).__name__}.examples: {problem}")

    def check_lengths(self, rows: Splits[list[Row]], examples: Splits[list[Example]]) -> None:
        """Raise LabError for a source or target that is too long; add hints about far longer ones than most.

        Args:
            rows: the line of each example.
            examples: the examples.
        """
        places = [row.place for row in chain(*rows)]
        sources = [len(example.source) for example in chain(*examples)]
        targets = [len(example.target) for example in chain(*examples)]
        for lengths, symbols in ((targets, "target symbols"), (sources, "source symbols")):
            check_length(places, lengths, symbols, "split it if it is several examples")
            self.hints.update(long_line_hint(places, lengths, symbols))

    def _training_split(self, examples: Sequence[Example]) -> TransductionSplit:
        targets = [self._target_ids(example) for example in examples]
        return TransductionSplit(
            sources=[self._source_ids(example) for example in examples],
            targets=targets,
            references=[[target] for target in targets],  # all references of each would take quadratic memory
            alignments=[example.alignment for example in examples],
        )

    def _evaluation_split(self, examples: Sequence[Example], name: str) -> TransductionSplit:
        references: dict[Sequence[str], dict[tuple[str, ...], list[int]]] = {}
        first: list[Example] = []
        for example in examples:
            if example.source not in references:
                first.append(example)
            references.setdefault(example.source, {})[tuple(example.target)] = self._target_ids(example)
        for source, targets in references.items():
            if len(targets) > MOST_REFERENCES:
                raise LabError(
                    f"{name}: the source {reprlib.repr(self.codec.source.notation.text(source))} has "
                    f"{len(targets):,} targets, but at most {MOST_REFERENCES:,} references are compared with "
                    "an output: leave some out"
                )
        self._check_memory(list(references.values()), name)
        return TransductionSplit(
            sources=[self._source_ids(example) for example in first],
            targets=[references[example.source][tuple(example.target)] for example in first],
            references=[list(references[example.source].values()) for example in first],
            alignments=[example.alignment for example in first],
            unseen=[self.codec.unseen(example.source, references[example.source]) for example in first],
        )

    def _check_memory(self, references: Sequence[Mapping[tuple[str, ...], Sequence[int]]], name: str) -> None:
        """Raise LabError if a batch with the most and the longest references would not fit in memory."""
        slots = max(map(len, references), default=0)
        longest = max((len(ids) for one in references for ids in one.values()), default=0)
        needed = min(self.batch_size or len(references), len(references)) * slots * longest * _SYMBOL
        batch = f"a batch with up to {slots:,} references of up to {longest:,} symbols for each example"
        remedy = "lower data.batch_size, or leave some references out"
        check_fits_in_memory(needed, f"{name}: {batch}", remedy)

    def _source_ids(self, example: Example) -> list[int]:
        return [*self.codec.source.ids(example.source), EOS]

    def _target_ids(self, example: Example) -> list[int]:
        return [*self.codec.target.ids(example.target), EOS]

    def _unseen(self, examples: Splits[list[Example]]) -> Splits[str]:
        """See `DataModule`; for both sides."""
        if self.files is None:
            return Splits("", "", "")
        sources = examples.map(lambda split: [example.source for example in split])
        targets = examples.map(lambda split: [example.target for example in split])
        source_terms = Terms("source symbol")
        target_terms = Terms("target symbol", effect="never generated unless copied")
        sides = (
            unseen_in_files(sources, self.codec.source.vocabulary, self.files, source_terms),
            unseen_in_files(targets, self.codec.target.vocabulary, self.files, target_terms),
        )
        return Splits(*("; ".join(filter(None, lines)) for lines in zip(*sides, strict=True)))


def _problem(source: object, target: object, alignment: object) -> str:
    """What is wrong with an example of a user-defined class; empty if nothing is."""
    if not (isinstance(source, Sequence) and isinstance(source, Hashable)):
        return f"a source must be a text or a tuple of symbols, not {kind_of(source)}"
    if not isinstance(target, Sequence):
        return f"a target must be a sequence of symbols, not {kind_of(target)}"
    if isinstance(alignment, str) or not isinstance(alignment, Sequence):
        return f"an alignment must be a sequence of source positions, not {kind_of(alignment)}"
    if (last := max(alignment, default=-1)) > len(source):  # the end of the source has a position, too
        return f"an alignment has the position {last}, but its source has 0 to {len(source)}"
    return ""


def _check_notation(side: str, model: Notation, data: Notation) -> None:
    names = {f"{side}_split": "split", f"{side}_normalization": "normalization"}
    for option, name in {**names, "right_to_left": "right_to_left"}.items():
        check_trained_with(option, getattr(model, name), getattr(data, name))
