"""The base class of data sets that map sequences to sequences."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.splits import Split, TransductionSplit
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.unseen_symbols import Terms, unseen_in_files
from attention_lab.errors import LabError
from attention_lab.sizes import EOS, TransductionSizes


class Example(NamedTuple):
    """The symbols of one pair, and the gold source position of each target symbol, if known."""

    source: Sequence[str]
    target: Sequence[str]
    alignment: Sequence[int] = ()


class TransductionData(DataModule):
    """Pairs of sequences.

    In training, every pair is an example. In validation and test, every distinct source is an example, and
    all its targets are references; the loss uses the first.
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
        own = self.make_codec(examples.train)
        self.codec = self.given(TransductionCodec) or own
        _check_notation("source", self.codec.source.notation, own.source.notation)
        _check_notation("target", self.codec.target.notation, own.target.notation)
        self.sizes = self.codec.sizes
        self.unseen = self._unseen(examples)
        return Splits(
            self._split(examples.train, once=False),
            self._split(examples.validation, once=True),
            self._split(examples.test, once=True),
        )

    def _split(self, examples: Sequence[Example], once: bool) -> TransductionSplit:
        source, target = self.codec.source, self.codec.target
        references: dict[Sequence[str], dict[tuple[str, ...], list[int]]] = {}
        first: list[Example] = []
        for example in examples:
            if example.source not in references:
                first.append(example)
            ids = [*target.ids(example.target), EOS]
            references.setdefault(example.source, {})[tuple(example.target)] = ids
        chosen = first if once else examples
        return TransductionSplit(
            sources=[[*source.ids(example.source), EOS] for example in chosen],
            targets=[references[example.source][tuple(example.target)] for example in chosen],
            references=[list(references[example.source].values()) for example in chosen],
            alignments=[example.alignment for example in chosen],
            unseen=[
                self.codec.unseen(example.source, references[example.source])
                for example in (first if once else ())
            ],
        )

    def _unseen(self, examples: Splits[list[Example]]) -> Splits[str]:
        """See `DataModule`; for both sides."""
        if self.files is None:
            return Splits("", "", "")
        sources = examples.map(lambda split: [example.source for example in split])
        targets = examples.map(lambda split: [example.target for example in split])
        read = Terms("source symbol")
        written = Terms("target symbol", effect="never generated unless copied")
        sides = (
            unseen_in_files(sources, self.codec.source.vocabulary, self.files, read),
            unseen_in_files(targets, self.codec.target.vocabulary, self.files, written),
        )
        return Splits(*("; ".join(filter(None, lines)) for lines in zip(*sides, strict=True)))


def _check_notation(side: str, model: Notation, data: Notation) -> None:
    names = {f"{side}_split": "split", f"{side}_normalization": "normalization"}
    for option, name in {**names, "right_to_left": "right_to_left"}.items():
        needed, found = getattr(model, name), getattr(data, name)
        if needed != found:
            needed, found = (str(one).lower() if isinstance(one, bool) else one for one in (needed, found))
            raise LabError(f"the model needs data.{option}={needed}, but this data has {found}")
