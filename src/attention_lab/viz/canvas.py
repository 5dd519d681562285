"""Surfaces to draw pictures on: the protocol `Paper`, and `Canvas`, an array of palette indices."""

import json
import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from attention_lab.tensorboard_plugin import STATIC
from attention_lab.viz.fonts import label_mask

Pixels = npt.NDArray[np.uint8]

SHADES = 192
"""Indices 0 .. SHADES - 1 are the colour map, from weight 0 to the largest."""
PAPER = SHADES
"""The first index of a ramp of greys, from white paper at PAPER to full ink at INK."""
INK = PAPER + 47
GOLD = INK + 1
BAD = GOLD + 1
LINE = PAPER + 22
"""The index of frames and ticks."""
OUTLINE = 2
"""Width in pixels of the outline around a gold cell."""

RAMP = STATIC / "viewer" / "ramp.js"
"""The file with the colours shared by these pictures and the Attention tab."""
_BAD_COLOUR = "cc3c96"
# Each has the same contrast with white as with TensorBoard's dark grey (#303030): 3.6 to 1.
_WEIGHT, _ANY_INK, _ANY_GOLD = "1e88e5", "7f868f", "e0771a"


def _rgb(colour: str) -> list[int]:
    return list(bytes.fromhex(colour))


def lightness(colours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """CIE 1976 L* (0 black .. 100 white) of sRGB colours [..., 3] in 0..255."""
    srgb = colours / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    result: npt.NDArray[np.float64] = np.where(
        luminance > (6 / 29) ** 3, 116 * np.cbrt(luminance) - 16, luminance * (29 / 3) ** 3
    )
    return result


def _colour_map(ramp: Sequence[str]) -> npt.NDArray[np.float64]:
    """[SHADES, 3]: colours through the anchors of the ramp, whose lightness falls in equal steps."""
    anchors = np.array([_rgb(anchor) for anchor in ramp], dtype=np.float64)
    along = np.linspace(0, len(anchors) - 1, 4096)
    fine = np.stack([np.interp(along, np.arange(len(anchors)), channel) for channel in anchors.T], axis=1)
    darkness = -lightness(fine)
    chosen = np.interp(np.linspace(darkness[0], darkness[-1], SHADES), darkness, np.arange(len(fine)))
    colours: npt.NDArray[np.float64] = fine[np.rint(chosen).astype(int)]
    return colours


def _palette() -> Pixels:
    constants = re.findall(r"^export const (\w+) = (.*);$", RAMP.read_text(encoding="utf-8"), re.MULTILINE)
    shared = {name: json.loads(value) for name, value in constants}
    colours = np.zeros((256, 3))
    colours[:SHADES] = _colour_map(shared["ANCHORS"])
    colours[PAPER : INK + 1] = np.linspace((255, 255, 255), _rgb(shared["INK"]), INK + 1 - PAPER)
    colours[GOLD], colours[BAD] = _rgb(shared["GOLD"]), _rgb(_BAD_COLOUR)
    return np.rint(colours).astype(np.uint8)


PALETTE = _palette()
"""[256, 3] sRGB colours."""


def _themed_palette() -> Pixels:
    """[256, 4] sRGB and opacity: paper and weight 0 are transparent, so the page may be light or dark."""
    colours = np.concatenate([_palette(), np.full((256, 1), 255, np.uint8)], axis=1)
    colours[:SHADES] = [*_rgb(_WEIGHT), 0]
    colours[:SHADES, 3] = np.rint(np.linspace(0, 255, SHADES))
    colours[PAPER : INK + 1] = [*_rgb(_ANY_INK), 0]
    # Grey text has less contrast on a page of any colour, so faint text is less pale here than on white.
    colours[PAPER : INK + 1, 3] = np.rint(255 * np.linspace(0, 1, INK + 1 - PAPER) ** 0.7)
    colours[GOLD, :3] = _rgb(_ANY_GOLD)
    return colours


THEMED = _themed_palette()
"""[256, 4] sRGB colours and opacity, for pages of unknown colour."""


class Paper(Protocol):
    """What a picture is drawn on, in pixels from its upper left corner: a `Canvas`, or vectors."""

    width: int

    def text(
        self,
        text: str,
        at: tuple[int, int],
        *,
        anchor: tuple[float, float] = (0.0, 0.5),
        size: int = 12,
        limit: int = 2400,
        strength: float = 1.0,
        turned: bool = False,
    ) -> int:
        """Write text on white at (x, y) and return its width.

        `anchor` is the point of the text's box that lies at (x, y), as fractions of its width and height.
        `turned` text reads upwards; `strength` < 1 is grey.
        """

    def frame(self, left: int, top: int, width: int, height: int) -> None:
        """Draw a thin grey frame just outside the box."""

    def fill(self, left: int, top: int, width: int, height: int, shade: int) -> None:
        """Fill the box with a colour of the palette."""

    def ramp(self, left: int, top: int, width: int, height: int, deepest: float) -> None:
        """Fill the box with the colours of weights: 0 below, the part `deepest` of the colour map above."""

    def hatch(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a masked cell."""

    def outline(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a gold cell."""


class Canvas:
    """White paper of `height` x `width` pixels, a `Paper`; draw by writing to `pixels`."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.pixels: Pixels = np.full((height, width), PAPER, dtype=np.uint8)

    def text(
        self,
        text: str,
        at: tuple[int, int],
        *,
        anchor: tuple[float, float] = (0.0, 0.5),
        size: int = 12,
        limit: int = 2400,
        strength: float = 1.0,
        turned: bool = False,
    ) -> int:
        """See `Paper.text`."""
        mask = label_mask(text, size, limit)
        if turned:
            mask = np.rot90(mask)
        height, width = len(mask), len(mask[0])
        left = max(0, round(at[0] - anchor[0] * width))
        top = max(0, round(at[1] - anchor[1] * height))
        place = self.pixels[top : top + height, left : left + width]
        ink = mask[: place.shape[0], : place.shape[1]] * np.float32(strength * (INK - PAPER) / 255)
        np.maximum(place, ink.astype(np.uint8) + np.uint8(PAPER), out=place)
        return width

    def frame(self, left: int, top: int, width: int, height: int) -> None:
        """Draw a thin grey frame just outside the box."""
        self.pixels[top - 1, left - 1 : left + width + 1] = LINE
        self.pixels[top + height, left - 1 : left + width + 1] = LINE
        self.pixels[top - 1 : top + height + 1, left - 1] = LINE
        self.pixels[top - 1 : top + height + 1, left + width] = LINE

    def fill(self, left: int, top: int, width: int, height: int, shade: int) -> None:
        """Fill the box with a colour of the palette."""
        self.pixels[top : top + height, left : left + width] = shade

    def ramp(self, left: int, top: int, width: int, height: int, deepest: float) -> None:
        """Fill the box with the colours of weights; see `Paper.ramp`."""
        colours = np.rint(np.linspace((SHADES - 1) * deepest, 0, height)).astype(np.uint8)
        self.pixels[top : top + height, left : left + width] = colours[:, None]

    def hatch(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a masked cell."""
        self.pixels[top : top + height, left : left + width] = hatching(height, width)
        self.frame(left, top, width, height)

    def outline(self, left: int, top: int, width: int, height: int) -> None:
        """Draw the sample of a gold cell."""
        self.fill(left, top, width, height, GOLD)
        self.fill(left + OUTLINE, top + OUTLINE, width - 2 * OUTLINE, height - 2 * OUTLINE, 0)

    def image(self, *, themed: bool = False) -> Image.Image:
        """The picture in Pillow's palette mode; if `themed`, the paper is transparent."""
        image = Image.fromarray(self.pixels)
        if themed:
            image.putpalette(THEMED.tobytes(), "RGBA")
        else:
            image.putpalette(PALETTE.tobytes())
        return image


_DIAGONALS = np.array([20, 8, 4, 4, 4, 8], dtype=np.uint8) + np.uint8(PAPER)


def hatching(height: int, width: int) -> Pixels:
    """A pattern of grey diagonals on light grey."""
    stripes = np.resize(_DIAGONALS, height + width)
    return sliding_window_view(stripes, width)[:height]  # each row is shifted by one pixel
