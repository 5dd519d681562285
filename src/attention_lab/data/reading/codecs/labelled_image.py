"""The codec of labelled images, which a model reads as sequences of patches."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.data.reading.codecs.base import encode_lines, path_line
from attention_lab.data.reading.codecs.classification import ClassificationCodec
from attention_lab.data.reading.files import LONGEST_SIDE, MOST_PATCHES
from attention_lab.data.reading.image_files import ImageReader, read_square
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes


@dataclass(frozen=True)
class LabelledImageCodec(ClassificationCodec):
    """Labels, and square images in patches (2010.11929, section 3.1): a vector of pixels for each patch.

    Each channel, grey or red, green and blue, is standardised as `(value - mean) / deviation`.
    """

    KIND = "labelled_image"
    image_size: int = 0
    patch_size: int = 0
    mean: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, labels: Sequence[str], train: Sequence[Tensor], patch_size: int) -> Self:
        """The codec of the images of the training split.

        Args:
            labels: the names of the classes.
            train: the images [C, S, S], with values from 0 to 1 and one channel or three.
            patch_size: the side of a patch in pixels; S is a multiple of it.

        Raises:
            LabError: they are anything else.
        """
        channels, size = _checked_shape(train, patch_size)
        # One image at a time, in double precision: all together may take most of the memory.
        mean = torch.stack([one.double().mean((1, 2)) for one in train]).mean(0)
        squares = torch.stack([(one - mean.view(-1, 1, 1)).square().mean((1, 2)) for one in train]).mean(0)
        deviation = squares.sqrt().where(squares > 0, 1.0)
        return cls(
            list(labels),
            (size // patch_size) ** 2,
            features=channels * patch_size**2,
            image_size=size,
            patch_size=patch_size,
            mean=mean.tolist(),
            deviation=deviation.tolist(),
        )

    @property
    def sizes(self) -> ClassificationSizes:
        """The number of classes, and the number, size and arrangement of the patches."""
        side = self.image_size // self.patch_size
        return replace(super().sizes, grid=(side, side))

    def problem(self) -> str:
        """See `BaseCodec`."""
        channels, size, patch = len(self.mean), self.image_size, self.patch_size
        if channels not in (1, 3) or len(self.deviation) != channels or min(self.deviation) <= 0:
            return "needs a mean and a positive deviation for each of 1 or 3 channels"
        if not 0 < size <= LONGEST_SIDE or not patch or size % patch:
            return f"cuts images of {size} pixels into patches of {patch}"
        if (size // patch) ** 2 > MOST_PATCHES:
            return f"cuts images into more than {MOST_PATCHES:,} patches"
        if (self.length, self.features) != ((size // patch) ** 2, channels * patch**2):
            return f"has {self.length} patches of {self.features} numbers, which its images do not have"
        if self.answers != 1:
            return f"has {self.answers} answers, but an image has one label"
        return super().problem()

    def as_line(self, given: object) -> str:
        """See `BaseCodec`; the path of an image may also be a `Path`."""
        return path_line(given)

    def encode(self, lines: Sequence[str], first: int = 1) -> ClassificationBatch:
        """Encode paths of image files; labels are -1."""
        read = partial(read_square, size=self.image_size, colour=len(self.mean) == 3)
        images = encode_lines(lines, first, ImageReader(read).read_line)
        patches = torch.stack([self.patches(image) for image in images])
        names = tuple(Path(line.strip()).name for line in lines)
        count = len(images)
        return ClassificationBatch(patches, torch.full([count], self.length), torch.full([count], -1), names)

    def patches(self, image: Tensor) -> Tensor:
        """The patches of an image [C, S, S] with values from 0 to 1, row by row, standardised [L, d]."""
        scaled = (image - self._column(self.mean)) / self._column(self.deviation)
        cut = torch.nn.functional.unfold(scaled[None], self.patch_size, stride=self.patch_size)
        return cut[0].mT.contiguous()

    def ink(self, patches: Tensor) -> npt.NDArray[np.uint8]:
        """The image of its patches [L, d] in shades of grey [S, S]: 0 is white and 255 black."""
        image = torch.nn.functional.fold(
            patches.mT[None], self.image_size, self.patch_size, stride=self.patch_size
        )[0]
        grey = (image * self._column(self.deviation) + self._column(self.mean)).mean(0)
        shades: npt.NDArray[np.uint8] = (255 * (1 - grey)).round().clamp(0, 255).byte().numpy()
        return shades

    def token_labels(self, inputs: Tensor | Sequence[int], length: int) -> list[str]:
        """Row and column of each patch, `r0c3`."""
        side = self.image_size // self.patch_size
        return [f"r{row}c{column}" for row in range(side) for column in range(side)]

    def input_text(self, inputs: Tensor, length: int) -> str:
        """The size of an image as text."""
        return f"image of {self.image_size} x {self.image_size}"

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values).view(-1, 1, 1)


def _checked_shape(images: Sequence[Tensor], patch_size: int) -> tuple[int, int]:
    """The channels and side of all images. Raises LabError unless they are squares with values in [0, 1]."""
    for one in images:
        found = list(one.shape) if isinstance(one, Tensor) else kind_of(one)
        square = (
            isinstance(one, Tensor)
            and one.dim() == 3
            and one.shape[0] in (1, 3)
            and one.shape[1] == one.shape[2]
        )
        if not square or one.shape != images[0].shape or not one.numel() or one.shape[1] % patch_size:
            raise LabError(
                "LabelledImageCodec.of needs tensors [C, S, S] of one size, C = 1 or 3, S a multiple of "
                f"{patch_size}, not {found}"
            )
        if not bool(((one >= 0) & (one <= 1)).all()):
            raise LabError("LabelledImageCodec.of needs images with values from 0 to 1")
    if not len(images):
        raise LabError("LabelledImageCodec.of needs at least one image")
    return images[0].shape[0], images[0].shape[1]
