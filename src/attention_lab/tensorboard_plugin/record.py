"""The record of one attention on one example, from which the tab, the report and the pictures are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Kind = Literal["sequence", "picture", "regression"]
MOST_HEADS = 10_000
"""Maximum number of heads: each is a map on the page, and in tiles takes far more memory than bytes."""


class Ink(NamedTuple):
    """The picture whose cells are the keys.

    Attributes:
        pixels: `[height, width]`, 8 bits each; 0 is paper and 255 is ink.
        cell: side of a cell in pixels.
        by_row: whether the cells are numbered row by row, like the patches of a vision transformer; if not,
            down each column, starting with the leftmost, as a line of writing is read.
    """

    pixels: npt.NDArray[np.uint8]
    cell: int
    by_row: bool = False


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The weights of one attention module on one example, with everything needed to read them.

    Args:
        weights: `[H, Q, K]` float, from 0 to 1; NaN and infinite values are not confused with 0.
        queries: label of each of the Q rows.
        keys: label of each of the K columns.
        module: the name of the attention module in the model.
        input: the example as text.
        output: the model's output for it.
        expected: the correct output, which is shown where the output differs; empty if unknown.
        mask: bool `[H, Q, K]`, True = attended; None if everything is.
        gold: `[Q]` or `[Q, G]`, the correct keys of each query, -1 for none; None if unknown.
        picture: the picture whose cells are the keys, if the input is a picture.
        x: positions of the queries `[Q]` and of the keys `[K]`, if they are numbers on one axis.
        heads: the number in the module of each of the H heads, counted from 0; None for 0 to H - 1.

    Raises:
        ValueError: shapes do not fit each other, gold is not a key, positions are not finite, or there are
            too many heads.
    """

    weights: npt.NDArray[np.float32]
    queries: Sequence[str]
    keys: Sequence[str]
    module: str = ""
    input: str = ""
    output: str = ""
    expected: str = ""
    mask: npt.NDArray[np.bool_] | None = None
    gold: npt.NDArray[np.int64] | None = None
    picture: Ink | None = None
    x: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
    heads: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or 0 in self.weights.shape:
            raise ValueError(f"weights must have the shape [heads, queries, keys], not {self.weights.shape}")
        heads, rows, columns = self.weights.shape
        check_heads(heads, self.heads)
        check_labels(self.queries, self.keys, rows, columns)
        if self.mask is not None and self.mask.shape != self.weights.shape:
            raise ValueError(f"mask {self.mask.shape} does not fit weights {self.weights.shape}")
        if self.gold is not None:
            check_gold(self.gold, rows, columns)
        if self.picture is not None:
            _check_picture(self.picture, columns)
        if self.x is not None:
            shapes = tuple(part.shape for part in self.x)
            if shapes != ((rows,), (columns,)) or not all(np.isfinite(part).all() for part in self.x):
                raise ValueError(
                    f"x must be {rows} query and {columns} key positions, all finite, not {shapes}"
                )

    @property
    def kind(self) -> Kind:
        """How the record is shown: over a picture, over an axis, or as a map with labels."""
        if self.picture is not None:
            return "picture"
        return "sequence" if self.x is None else "regression"

    @property
    def attended(self) -> npt.NDArray[np.bool_]:
        """[H, Q, K] bool: the cells that the mask does not hide."""
        return np.ones(self.weights.shape, bool) if self.mask is None else self.mask


def check_heads(count: int, numbers: Sequence[int] | None) -> None:
    """Raise ValueError if there are more than `MOST_HEADS`, or their numbers are not indices of heads."""
    if count > MOST_HEADS:
        raise ValueError(f"{count:,} heads are more than {MOST_HEADS:,}: choose some of them")
    if numbers is not None and (len(numbers) != count or min(numbers) < 0):
        raise ValueError(f"heads must be {count} indices from 0, not {list(numbers)[:9]}")


def check_labels(queries: Sequence[str], keys: Sequence[str], rows: int, columns: int) -> None:
    """Raise ValueError if there is not one label for each row and column, each of them a text."""
    for name, labels, size in (("query", queries, rows), ("key", keys, columns)):
        if len(labels) != size or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{rows} queries and {columns} keys need {size} {name} labels, each a text")


def check_gold(gold: npt.NDArray[np.int64], rows: int, columns: int) -> None:
    """Raise ValueError if gold does not have one entry per row, or has a key beyond the columns."""
    if gold.ndim not in (1, 2) or len(gold) != rows:
        raise ValueError(f"gold must have the shape [Q] or [Q, G] for {rows} queries, not {gold.shape}")
    if (gold >= columns).any() or (gold < -1).any():
        raise ValueError(f"gold must be from -1 (none) to {columns - 1}, the last key")


def _check_picture(picture: Ink, cells: int) -> None:
    shape, side = picture.pixels.shape, picture.cell
    if side < 1 or len(shape) != 2 or any(size % side for size in shape):
        raise ValueError(f"a picture {shape} does not consist of whole cells of {side} pixels")
    if (shape[0] // side) * (shape[1] // side) != cells:
        raise ValueError(
            f"a picture {shape} with cells of {side} pixels does not have {cells} cells, one for each key"
        )
