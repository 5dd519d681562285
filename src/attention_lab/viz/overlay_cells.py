"""The pixels of attention over a picture: ink on paper whose colour shows the weight."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from attention_lab.viz.canvas import BAD, GOLD, INK, PALETTE, PAPER, SHADES, THEMED
from attention_lab.viz.cells import Flags, Scale, shades

if TYPE_CHECKING:
    from attention_lab.viz.overlay import Overlay

Colours = npt.NDArray[np.float64]
"""Ink [..] from 0 to 1, or sRGB [.., 3] from 0 to 255, or sRGB and opacity [.., 4]."""
Indices = npt.NDArray[np.int64]

DEEPEST = 0.6
"""The part of the colour map that is used; the picture's own ink must stay darker than any paper."""
_OUTLINE = 2
_ROOM = 6  # least pixels of a cell for lines between cells
_FADED = 0.6  # how much ink fades where the weight is 0
_COLOURS = PALETTE.astype(np.float64)


def _depth(overlay: "Overlay", query: int, scale: Scale, maximum: float) -> tuple[Colours, Flags]:
    """[rows, columns]: the colour index of each cell's weight, and which cells are not finite."""
    weights = overlay.on_grid(overlay.weights[query]).astype(np.float64)
    bad = ~np.isfinite(weights)
    return shades(np.where(bad, 0, weights), scale, maximum).astype(np.float64), bad


def paint(overlay: "Overlay", query: int, ink: Colours, scale: Scale, maximum: float) -> Colours:
    """[height, width, 3]: the picture's ink on paper whose colours show a query's weights."""
    if query < 0:
        return _blend(_COLOURS[PAPER], _COLOURS[INK], ink)
    depth, bad = _depth(overlay, query, scale, maximum)
    paper = np.where(bad[..., None], _COLOURS[BAD], _COLOURS[np.rint(depth * DEEPEST).astype(int)])
    pen = _blend(paper, _COLOURS[INK], 1 - _FADED * (1 - np.sqrt(depth / (SHADES - 1))))
    cells = _cells(overlay.grid, *ink.shape)
    paper = paper[cells]
    _rule(paper, cells)
    panel: Colours = np.rint(_blend(paper, pen[cells], ink))
    panel[_outline(overlay.golden(query)[cells])] = _COLOURS[GOLD]
    return panel


def paint_themed(overlay: "Overlay", query: int, ink: Colours, scale: Scale, maximum: float) -> Colours:
    """[height, width, 4]: the same with opacity, for a page of any colour."""
    cells = _cells(overlay.grid, *ink.shape)
    if query < 0:
        alone: Colours = THEMED[INK] * np.where(np.arange(4) < 3, 1.0, ink[..., None])
        return alone
    depth, bad = _depth(overlay, query, scale, maximum)
    share = depth[cells] / (SHADES - 1)
    strength = ink * (1 - _FADED / 2 * (1 - np.sqrt(share)))
    under = np.where(bad[cells], 1, DEEPEST * share) * (1 - strength)
    colour = np.where(bad[cells][..., None], _COLOURS[BAD], THEMED[SHADES - 1, :3])
    opacity = (strength + under)[..., None]
    mixed = (strength[..., None] * THEMED[INK, :3] + under[..., None] * colour) / np.maximum(opacity, 1e-6)
    panel: Colours = np.concatenate([mixed, 255 * opacity], axis=-1)
    panel[_outline(overlay.golden(query)[cells])] = THEMED[GOLD]
    return np.rint(panel)


def enlarged(ink: npt.NDArray[Any], height: int, width: int) -> Colours:
    """The picture at the size of a panel, smoothly interpolated."""
    image = Image.fromarray(np.rint(np.clip(ink, 0, 1) * 255).astype(np.uint8))
    larger = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(larger, np.float64) / 255


def _cells(grid: tuple[int, int], height: int, width: int) -> tuple[Indices, Indices]:
    """The row [height, 1] and column [1, width] of the cell of each pixel."""
    rows, columns = grid
    return np.arange(height)[:, None] * rows // height, np.arange(width)[None] * columns // width


def _blend(paper: Colours, pen: Colours, ink: Colours) -> Colours:
    """[.., 3]: an amount `ink` [..] of the colour `pen` on `paper`."""
    blended: Colours = paper + ink[..., None] * (pen - paper)
    return blended


def _rule(paper: Colours, cells: tuple[Indices, Indices]) -> None:
    """Draw thin lines between the cells if there is room, faint enough not to compete with the picture."""
    rows, columns = cells
    if columns.shape[1] < _ROOM * (1 + columns.max()):
        return
    lines = np.zeros(paper.shape[:2], bool)
    lines[:, 1:] |= np.diff(columns) > 0
    lines[1:] |= np.diff(rows, axis=0) > 0
    paper[lines] *= 0.96


def _outline(golden: Flags) -> Flags:
    """The inner edge of the region that is True."""
    height, width = golden.shape
    around, inside = np.pad(golden, _OUTLINE), golden.copy()
    for y in (0, _OUTLINE, 2 * _OUTLINE):
        for x in (0, _OUTLINE, 2 * _OUTLINE):
            inside &= around[y : y + height, x : x + width]
    return golden & ~inside
