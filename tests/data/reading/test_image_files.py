"""Images whose files have more in them than pixels, or pixels of many bits."""

import io
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image, TiffImagePlugin

from attention_lab.data.reading.image_files import read_image
from attention_lab.errors import LabError


def _segments(*contents: bytes) -> bytes:
    """A JPEG file with these application segments."""
    file = io.BytesIO()
    Image.new("L", (16, 16), "white").save(file, "JPEG")
    segments = b"".join(b"\xff\xe1" + pack(">H", len(one) + 2) + one for one in contents)
    return file.getvalue()[:2] + segments + file.getvalue()[2:]


def _chunks(place: int, kind: bytes, number: int) -> bytes:
    """A PNG file with so many empty chunks of this kind."""
    file = io.BytesIO()
    Image.new("L", (16, 16), "white").save(file, "PNG")
    content = bytes(4) + kind + pack(">I", zlib.crc32(kind))
    return file.getvalue()[:place] + content * number + file.getvalue()[place:]


@pytest.mark.parametrize(
    ("content", "accepted"),
    [
        (_segments(*[b"Exif\0\0" + bytes(65_000)] * 50), True),
        (_segments(*[b"Exif\0\0" + bytes(65_000)] * 100), False),  # 3,000 of them took six minutes
        (_segments(*[b""] * 10_000), False),
        (_chunks(33, b"abCd", 1_000), True),
        (_chunks(33, b"abCd", 10_000), False),
        (_chunks(33, b"IDAT", 10_000), True),
        (_chunks(33, b"IDAT", 200_000), False),
        (b"P2 #" + b"c" * 10_000 + b"\n16 16 255\n" + b"255 " * 256, False),
    ],
)
def test_images_with_much_besides_their_pixels_are_rejected(
    content: bytes, accepted: bool, tmp_path: Path
) -> None:
    (path := tmp_path / "a").write_bytes(content)
    if accepted:
        assert not read_image(path, 16, 8).any()
    else:
        with pytest.raises(LabError, match=r"/a has too much data besides pixels; save it as PNG without"):
            read_image(path, 16, 8)


def test_a_text_of_pixels_has_few_comments(tmp_path: Path) -> None:
    """A megabyte of them took fifteen seconds."""
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P2 16 16 255\n" + b"#\n" * 500 + b"255 " * 256)
    assert not read_image(path, 16, 8).any()
    path.write_bytes(b"P5 16 16 255\n" + b"#" * 1000)
    assert read_image(path, 16, 8).unique().numel() == 1
    path.write_bytes(b"P2 16 16 255\n" + b"#\n" * 501 + b"255 " * 256)
    with pytest.raises(LabError, match=r"a.pgm has more than 500 comments; save it as PNG$"):
        read_image(path, 16, 8)


def test_a_tag_of_the_wrong_type_is_one_line(tmp_path: Path) -> None:
    """Pillow looks for text in XMP data, which here are numbers."""
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    with warnings.catch_warnings(action="ignore"):
        tags.tagtype[700] = 12
        tags[700] = (1.0, 2.0)
        Image.new("L", (4, 4)).save(tmp_path / "a.tif", tiffinfo=tags)
    with pytest.raises(LabError, match=r"a.tif: the image is damaged"):
        read_image(tmp_path / "a.tif", 4, 4)


@pytest.mark.parametrize("kind", ["EPS", "PCX"])
def test_other_formats_than_those_listed_are_not_opened(kind: str, tmp_path: Path) -> None:
    """Pillow gives PostScript, which is a program, to Ghostscript."""
    path = tmp_path / "image.png"
    Image.new("L", (16, 16), "white").save(path, kind)
    with pytest.raises(LabError, match="is not an image; use PNG, JPEG or a similar format"):
        read_image(str(path), 8, 4)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_pixels_of_16_bits(name: str, tmp_path: Path) -> None:
    """As scanners write them; all above 255 were white."""
    pixels = np.full((4, 4), 65535, np.uint16)
    pixels[:, 0], pixels[:, 1] = 0, 257 * 51
    Image.fromarray(pixels).save(tmp_path / name)
    torch.testing.assert_close(read_image(tmp_path / name, 4, 2), torch.tensor([1, 0.8, 0, 0]).expand(4, 4))


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_whose_white_is_unknown_are_rejected(kind: type[np.generic], tmp_path: Path) -> None:
    Image.fromarray(np.ones((4, 4), kind)).save(tmp_path / "a.tif")
    with pytest.raises(LabError, match=r"a\.tif has 32-bit pixels; save it with 8 or 16 bits$"):
        read_image(tmp_path / "a.tif", 4, 2)


UPRIGHT: dict[int, Callable[[Any], Any]] = {
    1: lambda pixels: pixels,
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: np.transpose,
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).T,
    8: np.rot90,
    9: lambda pixels: pixels,
}
"""How a photo is turned, by the orientation that its Exif data gives; 9 is none."""


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_photo_stands_upright(kind: str, orientation: int, tmp_path: Path) -> None:
    """A camera saves the pixels as it was held, and how that was in the Exif data."""
    pixels = np.full((40, 64), 255, dtype=np.uint8)
    pixels[:20, :8] = 0
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    Image.fromarray(pixels).save(tmp_path / "x", kind, exif=exif, quality=100, lossless=True)
    turned = UPRIGHT[orientation](pixels)
    expected = 1 - torch.from_numpy(np.array(turned)) / 255
    torch.testing.assert_close(read_image(tmp_path / "x", len(turned), 8), expected, atol=0.1, rtol=0)


def test_damaged_exif_data_are_no_reason_to_reject_a_photo(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(_segments(b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + bytes(range(256))))
    assert read_image(tmp_path / "x.jpg", 16, 4).shape == (16, 16)
