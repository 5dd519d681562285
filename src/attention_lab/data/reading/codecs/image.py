"""The codec of images of text: images to grids of ink, and texts to symbols and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attention_lab.data.reading.batches import TransductionBatch, unlabelled
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines, path_line
from attention_lab.data.reading.image_files import ImageReader, Images, read_image
from attention_lab.data.reading.vocabulary import Ids, Tokenizer
from attention_lab.sizes import ImageSizes


@dataclass(frozen=True)
class ImageCodec(BaseCodec):
    """Images of `height` pixels, seen in square cells of `cell` pixels, and a tokenizer for their text."""

    KIND = "image_transduction"

    height: int
    cell: int
    target: Tokenizer

    @property
    def sizes(self) -> ImageSizes:
        """The height, the cell size and the size of the vocabulary."""
        return ImageSizes(self.height, self.cell, len(self.target.vocabulary))

    def problem(self) -> str:
        """See `BaseCodec`."""
        fits = self.height and self.cell and self.height % self.cell == 0
        return "" if fits else f"cuts {self.height} rows of pixels into cells of {self.cell}"

    def as_line(self, given: object) -> str:
        """See `BaseCodec`; the path of an image may also be a `Path`."""
        return path_line(given)

    def encode(self, lines: Sequence[str], first: int = 1) -> TransductionBatch:
        """Encode paths of image files; the target is only `EOS`, without references or alignment."""
        reader = ImageReader(partial(read_image, height=self.height, cell=self.cell))
        images = Images(encode_lines(lines, first, reader.read_line))
        return unlabelled(images[torch.arange(len(lines))], images.lengths)

    def decode(self, ids: Ids, unseen: Sequence[str] = ()) -> str:
        """Target ids as text, up to the first `EOS`; `unseen` as in `Tokenizer.decode`."""
        return self.target.decode(ids, unseen)

    def source_text(self, image: Tensor, unseen: Sequence[str] = ()) -> str:
        """A one-line description of an image [H, W], in which no symbol can be `unseen`."""
        height, width = image.shape
        return f"image of {width} x {height}"

    def source_labels(self, image: Tensor, unseen: Sequence[str] = ()) -> list[str]:
        """Label each cell of an image [H, W] with row and column, `r0c3`; it has no `unseen` symbols."""
        rows, columns = (size // self.cell for size in image.shape)
        return [f"r{row}c{column}" for column in range(columns) for row in range(rows)]
