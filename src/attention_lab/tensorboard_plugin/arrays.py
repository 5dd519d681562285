"""What is to be shown, as the arrays of a record."""

from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.record import Ink


def array(value: Any, dtype: Any, name: str) -> npt.NDArray[Any]:
    """A tensor, array or list as an array on the CPU, whatever its float type.

    Raises:
        ValueError: it has not the numbers of an array.
    """
    if hasattr(value, "detach"):  # NumPy has not all of PyTorch's float types
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    try:
        found = np.asarray(value)
        if found.dtype.kind in "cOSUmM":
            raise ValueError(f"{found.dtype} is no real number")
        with np.errstate(over="ignore", invalid="ignore"):
            return found.astype(dtype, copy=False)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is no array of numbers: {error}") from None


def broadcast(mask: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """A mask of the shape of the weights.

    Raises:
        ValueError: it does not fit.
    """
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"mask {mask.shape} does not fit weights {shape}") from None


def make_ink(pixels: Any, cell: int) -> Ink:
    """A picture from 0 (paper) to 1 (ink), in 8 bits."""
    shades = np.nan_to_num(array(pixels, np.float32, "picture")).clip(0, 1)
    return Ink(np.rint(shades * 255).astype(np.uint8), cell)
