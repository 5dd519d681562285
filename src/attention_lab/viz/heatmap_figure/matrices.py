"""Convert matrices, titles and labels from the forms that users pass to one form."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.viz.fonts import visible

Matrix = npt.NDArray[np.float64]
Labels = Sequence[str] | Sequence[Sequence[str]]

LONGEST = 14
"""Maximum number of characters of a label."""


def as_panels(matrices: Any) -> tuple[list[Matrix], int | None]:
    """The matrices in reading order, and the number per row if it is given."""
    across = None
    match _depth(matrices):
        case 2:
            found = [_matrix(matrices)]
        case 3:
            found = [_matrix(one) for one in matrices]
        case 4:
            rows = [[_matrix(one) for one in row] for row in matrices]
            found, across = [one for row in rows for one in row], max(map(len, rows), default=0)
            if len(found) != len(rows) * across:
                raise ValueError(
                    f"the rows have {[len(row) for row in rows]} matrices: give each row the same number"
                )
        case depth:
            raise ValueError(
                f"matrices has {depth} dimensions: give [rows, columns, Q, K], [N, Q, K] or [Q, K]"
            )
    if not found:
        raise ValueError("no matrices to draw")
    return found, across


def _depth(values: Any) -> int:
    """The number of dimensions, counting nested lists."""
    if isinstance(values, list | tuple):
        return 1 + (_depth(values[0]) if values else 2)
    return len(values.shape) if hasattr(values, "shape") else np.ndim(values)


def _matrix(values: Any) -> Matrix:
    """Convert to float64; a tensor is detached, moved to the CPU and converted to a type that NumPy knows."""
    for method in ("detach", "cpu", "float"):
        if hasattr(values, method):
            values = getattr(values, method)()
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"a matrix has shape {matrix.shape}: give [Q, K] with at least one query and key")
    return matrix


def as_captions(titles: Sequence[str] | None, count: int, columns: int) -> list[str]:
    """A title for each matrix; titles of columns are those of the first row."""
    if titles is None:
        return [""] * count
    if len(titles) not in (count, columns):
        raise ValueError(
            f"there are {len(titles)} titles: give one for each of {count} matrices or of {columns} columns"
        )
    return [*titles, *[""] * (count - len(titles))]


def as_labels(labels: Labels | None, panels: Sequence[Matrix], axis: int) -> list[list[str]]:
    """The labels of each panel, ready to be drawn; empty if there are none."""
    if labels is None or len(labels) == 0:
        return [[] for _ in panels]
    name = ("queries", "keys")[axis]
    shared = np.ndim(labels[0]) == 0
    each = [labels] * len(panels) if shared else labels
    if len(each) != len(panels):
        raise ValueError(
            f"{name}: the number of lists must be {len(panels)}, one for each matrix, not {len(each)}"
        )
    sizes = [panel.shape[axis] for panel in panels]
    for number, (one, size) in enumerate(zip(each, sizes, strict=True), start=1):
        if len(one) != size:
            where = name if shared and len(set(sizes)) == 1 else f"{name} of matrix {number}"
            raise ValueError(f"{where}: the number of labels must be {size}, not {len(one)}")
    return [[_short(visible(str(label))) for label in one] for one in each]


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
