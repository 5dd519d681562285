"""Data sets of labelled time series: TimeSeries."""

from itertools import chain
from pathlib import Path

import torch

from attention_lab.constructor_options import options_of
from attention_lab.data.classification import ClassificationData, distinct_labels
from attention_lab.data.file_warnings.long_lines import long_line_hint, longest_allowed
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.file_warnings.unseen_symbols import label_hints
from attention_lab.data.reading.codecs import SeriesCodec
from attention_lab.data.reading.datasets import ClassificationSplit, Split
from attention_lab.data.reading.files import blame, read_once
from attention_lab.data.reading.ragged import RaggedVectors
from attention_lab.data.reading.series_files import LabelledSeries
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.specs.files import TimeSeriesSpec


class TimeSeries(ClassificationData):
    """Time series with labels, of any lengths, with one or several numbers a step.

    The files have lines of `label<TAB>series` (UTF-8), or are .ts files of the UEA and UCR archives; see
    `read_series`. A single file is split at random.

    Args:
        options: see `TimeSeriesSpec`.
    """

    codec: SeriesCodec

    @options_of(TimeSeriesSpec)
    def __init__(self, spec: TimeSeriesSpec) -> None:
        super().__init__(spec.batch_size)
        self.files = spec

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        rows = read_once(self.files)
        places, lengths = [row.place for row in chain(*rows)], [len(row.steps) for row in chain(*rows)]
        codec = self.given(SeriesCodec)
        if codec is None:
            known = self.files.known(rows)
            labels = distinct_labels([row.label for row in known], known[0].place)
            longest = longest_allowed(places, lengths, "steps", self.files.max_length)
            train = [torch.from_numpy(row.steps) for row in rows.train]
            with blame(self.files.names.train):
                codec = SeriesCodec.of(labels, train, longest, standardize=self.files.standardize)
        self.codec, self.sizes = codec, codec.sizes
        keyed = rows.map(lambda split: [Keyed(row.key, row.label) for row in split])
        self.shared = shared_examples(keyed, self.files.names, "label")
        self.hints.update(label_hints(keyed, self.files))
        self.hints.update(long_line_hint(places, lengths, "steps"))

        def split(series: list[LabelledSeries]) -> ClassificationSplit:
            steps, labels = [], []
            for row in series:
                with blame(row.place):
                    steps.append(codec.standardize(torch.from_numpy(row.steps)))
                    labels.append(codec.label(row.label))
            names = [Path(row.place).name for row in series]  # `file:line`, whatever the folder
            return ClassificationSplit(RaggedVectors(steps), labels, names)

        return rows.map(split)
