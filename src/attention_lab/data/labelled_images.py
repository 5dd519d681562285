"""Data sets of labelled images: LabelledImages."""

from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path

import torch
from torch import Tensor

from attention_lab.constructor_options import options_of
from attention_lab.data.classification import ClassificationData, distinct_labels
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.file_warnings.unseen_symbols import label_hints
from attention_lab.data.reading.codecs import LabelledImageCodec
from attention_lab.data.reading.datasets import ClassificationSplit, Split
from attention_lab.data.reading.files import Row, blame, read_once
from attention_lab.data.reading.image_files import content_of, read_listed, read_square
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.specs.images import LabelledImagesSpec
from attention_lab.data.specs.option_checks import check_trained_with


class LabelledImages(ClassificationData):
    """Images with labels, of any size: scaled to squares, and cut into patches that a model reads in order.

    The files have lines of `label<TAB>image` (UTF-8). An image is given as the path of a PNG, JPEG or other
    image file, relative to the folder of the file that names it. A single file is split at random.

    Args:
        options: see `LabelledImagesSpec`.
    """

    codec: LabelledImageCodec

    @options_of(LabelledImagesSpec)
    def __init__(self, spec: LabelledImagesSpec) -> None:
        super().__init__(spec.batch_size)
        self.files = spec

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        given = self.given(LabelledImageCodec)
        if given is not None:
            self._check_options(given)
        rows = read_once(self.files)
        read = partial(read_square, size=self.files.image_size, colour=self.files.colour)
        found = iter(read_listed(((row.place, row.second) for row in chain(*rows)), read, "data.image_size"))
        images = rows.map(lambda split: list(islice(found, len(split))))
        folders = [Path(row.second.strip()).parent.parts for row in chain(*rows)]
        # The folders that all images are in say nothing about one of them.
        shared = len([*takewhile(lambda level: len({*level}) == 1, zip(*folders, strict=False))])
        codec = given or self._make_codec(rows, images.train)
        self.codec, self.sizes = codec, codec.sizes
        pairs = Splits(*(list(zip(*pair, strict=True)) for pair in zip(rows, images, strict=True)))
        keyed = pairs.map(lambda split: [Keyed(content_of(image), row.first.strip()) for row, image in split])
        self.shared = shared_examples(keyed, self.files.names, "label")
        self.hints.update(label_hints(keyed, self.files))

        def split(examples: list[tuple[Row, Tensor]]) -> ClassificationSplit:
            patches, labels = [], []
            for row, image in examples:
                with blame(row.place):
                    labels.append(codec.label(row.first.strip()))
                patches.append(codec.patches(image))
            names = [str(Path(*Path(row.second.strip()).parts[shared:])) for row, _ in examples]
            empty = torch.zeros(0, codec.length, codec.features or 0)
            return ClassificationSplit(torch.stack(patches) if patches else empty, labels, names)

        return pairs.map(split)

    def _check_options(self, codec: LabelledImageCodec) -> None:
        """Raise LabError if a trained model needs other images."""
        colour = len(codec.mean) == 3
        made_for = {"image_size": codec.image_size, "patch_size": codec.patch_size, "colour": colour}
        for option, needed in made_for.items():
            check_trained_with(option, needed, getattr(self.files, option))

    def _make_codec(self, rows: Splits[list[Row]], train: list[Tensor]) -> LabelledImageCodec:
        known = self.files.known(rows)
        labels = distinct_labels([row.first.strip() for row in known], known[0].place)
        return LabelledImageCodec.of(labels, train, self.files.patch_size)
