"""Draw labels as small grey images, each in the first well-known font that has all its characters."""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from math import ceil, floor
from typing import cast

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Mask = npt.NDArray[np.uint8]
"""[height, width] ink coverage of each pixel: 0 is none, 255 is full."""

FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "segoeui.ttf",
    "Arial Unicode.ttf",
    "NotoSansCJK-Regular.ttc",
    "DroidSansFallbackFull.ttf",
    "wqy-microhei.ttc",
    "Hiragino Sans GB.ttc",
    "msyh.ttc",
    "malgun.ttf",
    "NotoSansArabic-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoEmoji-Regular.ttf",
    "seguisym.ttf",
)
"""Fonts in order of preference. Pillow finds them by name in the font folders of Linux, macOS and Windows."""

BUILT_IN = ""
LONGEST = 200  # characters; longer labels do not fit in a picture
PIXELS = "·░▒▓█"
"""The pixels in labels that are rows of a picture, from paper to ink: `SHADES` of `data.vector_texts`."""
_FEWEST_PIXELS = 4  # a shorter label may be anything
MISSING = "\U0010ffff"  # never a character, so every font draws its box for missing ones


def label_mask(text: str, size: int, limit: int = 2400) -> Mask:
    """Draw `text` at `size` pixels, cut off with an ellipsis if it is wider than `limit` pixels.

    All masks of the same size have the same height, and capital letters are centred vertically. The
    array is shared between calls and read-only.
    """
    # Cut before the cache lookup, so that the cache does not hash and keep labels of any length.
    return _draw(text if len(text) <= LONGEST else text[:LONGEST] + "…", size, limit)


@lru_cache(maxsize=8192)
def _draw(text: str, size: int, limit: int) -> Mask:
    height = round(1.4 * size)
    if len(text) >= _FEWEST_PIXELS and set(text) <= set(PIXELS):
        mask = _pixel_row(text, size, height, limit)
    else:
        text = visible(text)
        font = _load(font_for(text), size)
        text = _shorten(_from_the_left(text), font, limit)
        left, right = _extent(text, font)
        image = Image.new("L", (max(1, min(limit, right - left)), height))
        baseline = round(height / 2 + 0.365 * size)
        ImageDraw.Draw(image).text((-left, baseline), text, fill=255, font=font, anchor="ls")
        mask = np.array(image)
    mask.setflags(write=False)
    return mask


def _pixel_row(text: str, size: int, height: int, limit: int) -> Mask:
    """Squares of grey: in a font, these characters are patterns of dots. Paper is faint, not invisible."""
    side = max(1, min(round(0.77 * size), limit // len(text)))
    inks = [max(0.06, PIXELS.index(one) / (len(PIXELS) - 1)) for one in text[:limit]]
    mask = np.zeros((height, side * len(inks)), np.uint8)
    top = (height - side) // 2
    mask[top : top + side] = np.rint(255 * np.repeat(inks, side))
    return mask


def shorten(text: str, size: int, limit: int) -> str:
    """Make a text visible, and cut it off with an ellipsis if it is wider than `limit` at `size` pixels."""
    text = visible(text if len(text) <= LONGEST else text[:LONGEST] + "…")
    return _shorten(_from_the_left(text), _load(font_for(text), size), limit)


def _from_the_left(text: str) -> str:
    """Make `input → output` read from left to right even if it begins in Arabic or Hebrew.

    A line that begins in a right-to-left script is laid out from the right, but its arrow is not mirrored.
    """
    strong = next((one for one in map(unicodedata.bidirectional, text) if one in ("L", "R", "AL")), "L")
    return f"\N{LEFT-TO-RIGHT MARK}{text}" if "→" in text and strong != "L" else text


def visible(text: str) -> str:
    """Replace what cannot be seen: line breaks, tabs, controls, format characters, labels of spaces."""
    text = text.replace("\t", " ").replace("\n", "↵")
    if text and text.isspace() and text.isprintable():
        return "␣" * len(text)
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    joiner = character in "\u200c\u200d"  # part of normal spelling in Persian and Hindi
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and not joiner
    hidden = hidden or character in "\ufffe\uffff"  # not allowed in SVG
    return "\ufffd" if hidden else character


def font_for(text: str) -> str:
    """Name of the first installed font that has every character of `text`, else of the one with the most."""
    best, most = BUILT_IN, -1
    for name in _installed():
        covered = sum(_covers(name, character) for character in text)
        if covered == len(text):
            return name
        if covered > most:
            best, most = name, covered
    return best


def _installed() -> Iterator[str]:
    # Lazily, because the first font covers most labels, and each search walks the font folders.
    yield from filter(_exists, FONTS)
    yield BUILT_IN


@lru_cache
def _exists(name: str) -> bool:
    try:
        ImageFont.truetype(name, 16)
    except OSError:
        return False
    return True


@lru_cache(maxsize=256)
def _load(name: str, size: int) -> ImageFont.FreeTypeFont:
    if name == BUILT_IN:
        return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size))
    return ImageFont.truetype(name, size)


@lru_cache(maxsize=65536)
def _covers(name: str, character: str) -> bool:
    """Whether the font draws anything other than its box for missing characters."""
    return character.isspace() or _shape(name, character) != _shape(name, MISSING)


def _shape(name: str, character: str) -> tuple[tuple[int, int], bytes]:
    mask = _load(name, 16).getmask(character)
    return mask.size, bytes(mask)


def _extent(text: str, font: ImageFont.FreeTypeFont) -> tuple[int, int]:
    """The left end of the ink (at most 0) and its right end."""
    left, _, right, _ = font.getbbox(text, anchor="ls")
    return floor(min(0, left)), ceil(right)


def _shorten(text: str, font: ImageFont.FreeTypeFont, limit: int) -> str:
    def width(kept: str) -> int:
        left, right = _extent(kept, font)
        return right - left

    if width(text) <= limit:
        return text
    keep = bisect_right(range(1, len(text)), limit, key=lambda count: width(text[:count] + "…"))
    return text[:keep].rstrip() + "…"
