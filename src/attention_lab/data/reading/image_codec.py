"""Grey pictures of one height and any width: read, kept, padded, and their codec.

A picture is a tensor [H, W] of ink, 0 (paper) to 1, both sides multiples of a cell's. Its grid of cells is
counted down each column, the left one first, so that what is padded on the right stands behind all the rest.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from attention_lab.data.reading.batches import TransductionBatch, unlabelled
from attention_lab.data.reading.vocabulary import Ids, Tokenizer
from attention_lab.errors import LabError
from attention_lab.reading import open_regular
from attention_lab.sizes import ImageSizes

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""Of pictures. Others, such as PostScript, are programs."""
LONGEST = 4096  # columns of pixels: beyond it a picture is no line of text
MOST = 1 << 28
"""Most bytes of a picture file."""


class Images:
    """Pictures [H, W] of one height; indexing pads them with paper to the widest one asked for.

    Attributes:
        lengths: the width of each picture [N].
    """

    def __init__(self, pictures: Sequence[Tensor]) -> None:
        self.lengths = torch.tensor([picture.shape[1] for picture in pictures], dtype=torch.int64)
        self._pictures = list(pictures)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Pictures `index` [B] as [B, H, W], W their greatest width."""
        chosen = [self._pictures[row] for row in index.tolist()]
        padded: Tensor = chosen[0].new_zeros(len(chosen), chosen[0].shape[0], int(self.lengths[index].max()))
        for place, picture in zip(padded, chosen, strict=True):
            place[:, : picture.shape[1]] = picture
        return padded


def whole_cells(picture: Tensor, cell: int) -> Tensor:
    """`picture` [H, W] with paper on its right, up to a whole number of cells."""
    return torch.nn.functional.pad(picture, (0, -picture.shape[1] % cell))


def read_picture(path: Path, height: int, cell: int, place: str) -> Tensor:
    """A picture file in grey, dark ink on light paper, scaled to `height` pixels.

    Raises:
        LabError: naming `place`, if there is no such file, it is no picture, or it is too large or wide.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged files
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_regular(path, MOST) as opened, Image.open(opened, formats=FORMATS) as file:
                width = max(1, round(file.width * height / file.height))
                if width > LONGEST:
                    raise LabError(
                        f"{place}: {path} is {width / height:.0f} times as wide as high; cut it up"
                    )
                grey = _on_white(file).resize((width, height), Image.Resampling.BOX)
    except UnidentifiedImageError:
        raise LabError(f"{place}: {path} is not a picture; give PNG, JPEG or the like") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise LabError(f"{place}: {path} has too many pixels; scale it down") from None
    except (OSError, SyntaxError, ValueError) as error:  # the last two are Pillow's for damaged files
        reason = getattr(error, "strerror", None) or "the picture is damaged"
        raise LabError(f"{place}: {path}: {reason} (looked for it from {Path.cwd()})") from None
    ink = 1 - torch.from_numpy(np.asarray(grey, dtype=np.float32) / 255)
    return whole_cells(ink, cell)


def _on_white(file: Image.Image) -> Image.Image:
    """The picture in grey; where it is transparent, there is white paper."""
    coloured = file.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("L")


@dataclass(frozen=True)
class ImageCodec:
    """Pictures of `height` pixels, seen in square cells of `cell` pixels, and a tokenizer for their text."""

    KIND: ClassVar[str] = "image_transduction"

    height: int
    cell: int
    target: Tokenizer

    @property
    def sizes(self) -> ImageSizes:
        """The height, the cell and the size of the vocabulary."""
        return ImageSizes(self.height, self.cell, len(self.target.vocabulary))

    def encode(self, lines: Sequence[str], first: int = 1) -> TransductionBatch:
        """Paths of picture files; the target is `EOS` alone, and there are no references and no alignment."""
        if not lines:
            raise LabError("no lines to read; give at least one")
        pictures = []
        for number, line in enumerate(lines, start=first):
            if not line.strip():
                raise LabError(f"line {number}: the line is empty; it should be the path of a picture")
            pictures.append(read_picture(Path(line.strip()), self.height, self.cell, f"line {number}"))
        images = Images(pictures)
        return unlabelled(images[torch.arange(len(lines))], images.lengths)

    def decode(self, ids: Ids) -> str:
        """Target ids as text, up to the first `EOS`."""
        return self.target.decode(ids)

    def source_text(self, picture: Tensor) -> str:
        """What can be said of a picture [H, W] in a line."""
        height, width = picture.shape
        return f"picture of {width} x {height}"

    def source_labels(self, picture: Tensor) -> list[str]:
        """A label for each cell of a picture [H, W]: row and column, such as `r0c3`."""
        rows, columns = (size // self.cell for size in picture.shape)
        return [f"r{row}c{column}" for column in range(columns) for row in range(rows)]

    def target_labels(self, ids: Ids) -> list[str]:
        """A label for each target step, `</s>` included, padding not."""
        return self.target.labels(ids)

    def state(self) -> dict[str, Any]:
        """What `from_state` needs."""
        return {"kind": self.KIND, "height": self.height, "cell": self.cell, "target": self.target.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The codec that gave this `state`."""
        return cls(state["height"], state["cell"], Tokenizer.from_state(state["target"]))
