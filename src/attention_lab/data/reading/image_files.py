"""Images: reading, storage and padding.

An image of text is a tensor [H, W] of ink from 0 (paper) to 1, whose sides are multiples of the cell size.
Its cells are numbered down each column, from left to right, so that padding on the right comes last. A
labelled image is a square [C, S, S] with values from 0 (black) to 1 (white) and one channel or three.
"""

import io
import math
import struct
import warnings
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from PIL import ExifTags, Image, UnidentifiedImageError
from torch import Tensor

from attention_lab.data.reading.files import blame, looked_from
from attention_lab.errors import BAD_VALUE_ERRORS, LabError
from attention_lab.files.regular_files import exists, open_regular

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""Accepted image formats. Others, such as PostScript, are programs."""
LONGEST = 4096  # pixel columns or rows; a larger image is not a line of text
_MOST_OF_FILE = 1 << 25  # pixels of an image file, before scaling; decoding takes 16 bytes for each
_ROW = 2  # memory that a row takes besides its pixels, in pixels
MOST_CELLS = 1 << 15  # in an image; an output may have as many symbols, each with a weight for every cell
MOST_PIXELS = 1 << 28  # in all images of a data set together; each takes four bytes
LARGEST_FILE = 1 << 28
"""Largest image file in bytes."""
MOST_SCANS = 500
"""Maximum number of scans of a JPEG file; each takes as long as decoding the image. About ten are usual in a
progressive one."""
MOST_COMMENTS = 500
"""Maximum number of comments in an image file of numbers as text; Pillow takes quadratic time for them."""
_REPEATED = {"JPEG": (b"\xff\xda", MOST_SCANS, "scans"), "PPM": (b"#", MOST_COMMENTS, "comments")}
LARGEST_HEADER = 1 << 22
"""Maximum bytes before the pixels of an image file; Pillow takes quadratic time for a JPEG's Exif data."""
_HEADER_READS, _MOST_READS = 10_000, 300_000  # read calls, for the header and for everything after it
_DAMAGED = (*BAD_VALUE_ERRORS, OSError, SyntaxError, EOFError, struct.error, zlib.error)  # Pillow raises all
_TILE_SIDES = (322, 323)  # tags of a TIFF file
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The transposition that sets a photo upright, by the orientation in its Exif data."""


class Images:
    """Images [H, W] of equal height; indexing pads them with paper to the widest of those selected.

    Attributes:
        lengths: the width of each image [N].
    """

    def __init__(self, images: Sequence[Tensor]) -> None:
        self.lengths = torch.tensor([image.shape[1] for image in images], dtype=torch.int64)
        self._images = list(images)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Images `index` [B] as [B, H, W], W their largest width."""
        chosen = [self._images[row] for row in index.tolist()]
        padded: Tensor = chosen[0].new_zeros(len(chosen), chosen[0].shape[0], int(self.lengths[index].max()))
        for place, image in zip(padded, chosen, strict=True):
            place[:, : image.shape[1]] = image
        return padded


def whole_cells(image: Tensor, cell: int) -> Tensor:
    """`image` [H, W], padded on the right with paper to a whole number of cells."""
    return torch.nn.functional.pad(image, (0, -image.shape[1] % cell))


def read_image(path: Path, height: int, cell: int) -> Tensor:
    """Read an image of text in grey, with dark ink on light paper, upright, scaled to `height` pixels.

    Raises:
        LabError: the file is missing, not an image, too large or wide, or has pixels of 32 bits.
    """

    def scaled(sides: tuple[int, int]) -> tuple[int, int]:
        width = max(1, round(sides[0] * height / sides[1]))
        _check_size(width, height, cell, path)
        return width, height

    return whole_cells(1 - _read(path, scaled, "L")[0], cell)


def read_square(path: Path, size: int, *, colour: bool) -> Tensor:
    """Read an image of anything, upright, scaled to a square [C, S, S]; C is 3 in colour, else 1.

    Raises:
        LabError: the file is missing, not an image, too large, or has pixels of 32 bits.
    """
    return _read(path, lambda sides: (size, size), "RGB" if colour else "L")


def _read(path: Path, scaled: Callable[[tuple[int, int]], tuple[int, int]], mode: str) -> Tensor:
    """An image [C, H, W] with values from 0 to 1; `scaled` gives width and height from those of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged files
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with (
                open_regular(path, LARGEST_FILE) as raw,
                _Metered(raw, path) as opened,
                Image.open(opened, formats=FORMATS) as file,
            ):
                opened.allow_pixels()
                if max((file.width + _ROW) * file.height, _tile_pixels(file)) > _MOST_OF_FILE:
                    raise Image.DecompressionBombError
                _check_repeats(file, opened, path)
                orientation = _orientation(file)
                sides = file.size[::-1] if orientation >= 5 else file.size
                size = scaled(sides)
                image = _on_white(file, path).convert(mode)
                if orientation > 1:
                    image = image.transpose(_TURNS[orientation])
                image = image.resize(size, Image.Resampling.BOX)
    except UnidentifiedImageError:
        raise LabError(f"{path} is not an image; use PNG, JPEG or a similar format") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise LabError(f"{path} has too many pixels; scale it down") from None
    except _DAMAGED as error:
        reason = getattr(error, "strerror", None) or "the image is damaged"
        raise LabError(f"{path}: {reason}{looked_from(error, path)}") from None
    light = torch.from_numpy(np.asarray(image, dtype=np.float32) / 255)
    return light[None] if light.dim() == 2 else light.permute(2, 0, 1).contiguous()


class _Metered(io.BufferedReader):
    """An image file that limits what Pillow reads: a file may have millions of empty parts, read one by one.

    Raises:
        LabError: Pillow reads more bytes, or reads more often, than any image needs.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        super().__init__(cast("io.RawIOBase", file))
        self._path = path
        self._bytes: float = LARGEST_HEADER
        self._reads = _HEADER_READS

    def allow_pixels(self) -> None:
        """The header has been read; now read the rest."""
        self._bytes, self._reads = math.inf, _MOST_READS

    def read(self, size: int | None = -1, /) -> bytes:
        """See `io.BufferedReader`."""
        content = super().read(size)
        self._reads -= 1
        self._bytes -= 0 if size in (None, -1) else len(content)  # WebP is read as a whole
        if min(self._reads, self._bytes) < 0:
            raise LabError(f"{self._path} has too much data besides pixels; save it as PNG without metadata")
        return content


class ImageReader:
    """Reads image files with a function, each of them once: many lines may name the same large file."""

    def __init__(self, read: Callable[[Path], Tensor]) -> None:
        self._read = read
        self._known: dict[object, Tensor] = {}

    def read(self, path: Path) -> Tensor:
        """The image in a file. Raises LabError if the function does."""
        key = _identity(path)
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]

    def read_line(self, line: str) -> Tensor:
        """The image whose path is a line of text. Raises LabError if the line is empty, or as `read` does."""
        if not line.strip():
            raise LabError("empty; give the path of an image")
        return self.read(_path(line, Path()))


def read_listed(
    images: Iterable[tuple[str, str]], read: Callable[[Path], Tensor], smaller: str
) -> list[Tensor]:
    """Read the images named in the lines of a file.

    Args:
        images: for each, `file:line`, and its path relative to the folder of that file.
        read: reads an image.
        smaller: the option that makes all of them smaller.

    Raises:
        LabError: an image cannot be read, or they have more than `MOST_PIXELS` in all.
    """
    reader, found, pixels = ImageReader(read), [], 0
    for place, path in images:
        with blame(place):
            image = reader.read(_path(path, Path(place.rpartition(":")[0]).parent))
        pixels += image.numel()
        if pixels > MOST_PIXELS:
            raise LabError(
                f"{place}: the images up to here have more than {MOST_PIXELS:,} pixels in all: "
                f"choose a smaller {smaller}, or fewer images"
            )
        found.append(image)
    return found


def _path(text: str, folder: Path) -> Path:
    """The file in a folder that a text names; spaces around the text count only if such a file exists."""
    path = folder / text
    return path if exists(str(path)) else folder / text.strip()


def content_of(image: Tensor) -> Hashable:
    """A value that is equal for two images only if their pixels are equal."""
    return tuple(image.shape), blake2b(image.numpy().tobytes(), digest_size=16).digest()


def _identity(path: Path) -> object:
    """A value that is equal for all paths of one file."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # reading the file will fail, too
        return path
    return status.st_dev, status.st_ino


def _tile_pixels(file: Image.Image) -> int:
    """The number of pixels in a tile of a TIFF image: tiles are decoded whole; 1 for other images."""
    sides = [getattr(file, "tag_v2", {}).get(tag, 1) for tag in _TILE_SIDES]
    return math.prod(side for side in sides if isinstance(side, int))


def _orientation(file: Image.Image) -> int:
    """The orientation of a photo, from 1 (upright) to 8; 1 if its Exif data do not give one."""
    if file.format == "TIFF":  # Pillow rotates these itself
        return 1
    try:
        orientation = file.getexif().get(ExifTags.Base.Orientation)
    except _DAMAGED:
        return 1
    return orientation if isinstance(orientation, int) and orientation in _TURNS else 1


def _check_size(width: int, height: int, cell: int, path: Path) -> None:
    """Raise LabError if an image is too large after scaling."""
    if height > LONGEST:
        raise LabError(f"data.height={height}: choose at most {LONGEST}")
    if width > LONGEST:
        raise LabError(f"{path} is {width / height:.0f} times as wide as it is high; cut it into pieces")
    if height * width > MOST_CELLS * cell**2:
        raise LabError(
            f"{path} has more than {MOST_CELLS:,} cells with data.height={height} and "
            f"data.cell={cell}: choose a smaller height or larger cells"
        )


def _check_repeats(file: Image.Image, opened: BinaryIO, path: Path) -> None:
    """Raise LabError if a JPEG image, perhaps in a TIFF, has too many scans, or a PPM too many comments."""
    jpeg = file.format in ("JPEG", "MPO") or file.info.get("compression") == "jpeg"
    place = opened.tell()
    opened.seek(0)
    if jpeg or (file.format == "PPM" and opened.read(2) in (b"P1", b"P2", b"P3")):  # others are binary
        mark, most, name = _REPEATED["JPEG" if jpeg else "PPM"]
        if opened.read().count(mark) > most:
            raise LabError(f"{path} has more than {most} {name}; save it as PNG")
    opened.seek(place)


def _on_white(file: Image.Image, path: Path) -> Image.Image:
    """The image with white in place of transparency, in 8 bits.

    Raises:
        LabError: its pixels have 32 bits, for which no number means white.
    """
    if file.mode.startswith("I;16") or (file.mode == "I" and file.format in ("PNG", "PPM")):
        return Image.fromarray((np.asarray(file) // 257).astype(np.uint8))
    if file.mode in ("I", "F"):
        raise LabError(f"{path} has 32-bit pixels; save it with 8 or 16 bits")
    if not file.has_transparency_data:  # as in photos, which are read more than twice as fast
        return file.convert("RGB")
    coloured = file.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured)
