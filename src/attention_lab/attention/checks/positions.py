"""Check relative positions, their grid, and the vectors to which positions are applied."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.attention.checks.tensors import check_count
from attention_lab.errors import LabError


def check_relative(relative: object, heads: int) -> None:
    """Reject relative positions that were made for a different number of heads.

    Raises:
        TypeError: they are a name or a class, not an object with their methods.
        ValueError: they were made for a different number of heads; their biases would not fit, or would
            silently broadcast to all heads.
    """
    if relative is None:
        return
    if not isinstance(relative, type) and hasattr(relative, "rotate"):
        made_for = getattr(relative, "heads", heads)
        if made_for != heads:
            kind = type(relative).__name__
            raise ValueError(f"MultiHead(relative=...): {kind} was made for {made_for} heads, not {heads}")
        return
    kind = relative.__name__ if isinstance(relative, type) else "Rotary"
    raise TypeError(
        f"MultiHead(relative=...) takes relative positions for its heads, such as {kind}(heads=8, size=64) "
        f"for 8 heads of size 64, not {kind_of(relative)}"
    )


def check_grid(grid: object) -> None:
    """Raise LabError if a grid is not None or two numbers of at least 1."""
    if grid is None:
        return
    if not isinstance(grid, Sequence) or isinstance(grid, str) or len(grid) != 2:
        raise LabError(f"grid must be two numbers, of rows and columns, not {grid!r}")
    for number in grid:
        check_number("a number in grid", number, least=1, whole=True)


def check_vectors(x: object, offset: object, size: int | None = None) -> None:
    """Reject anything but floating-point vectors `[..., L, size]`, or of any even size if `size` is None.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: it is not floating-point, or has the wrong shape.
        LabError: the offset of the first row is not a whole number of at least 0.
    """
    check_count("offset", offset, least=0)
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        raise TypeError(f"positions take a tensor, not {kind_of(x)}")
    if not x.is_floating_point():  # sines and cosines would be rounded
        raise ValueError(f"positions take floating-point vectors, such as embeddings, got {x.dtype}")
    if x.dim() < 2 or (x.shape[-1] % 2 if size is None else x.shape[-1] != size):
        shape = "[..., L, d] with d even" if size is None else f"[..., L, {size}]"
        raise ValueError(f"positions take vectors {shape}, got {list(x.shape)}")
