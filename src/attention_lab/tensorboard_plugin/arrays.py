"""Convert tensors, arrays and lists to the arrays of a record."""

from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.record import Ink


def array(value: Any, dtype: Any, name: str) -> npt.NDArray[Any]:
    """Convert a tensor, array or list of any number type to a NumPy array.

    Raises:
        ValueError: it is not an array of numbers.
    """
    if hasattr(value, "detach"):  # NumPy lacks some of PyTorch's float types
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    try:
        found = np.asarray(value)
        if found.dtype.kind in "cOSUmM":
            raise ValueError(f"{found.dtype} is not a real number")
        with np.errstate(over="ignore", invalid="ignore"):
            return found.astype(dtype, copy=False)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None


def broadcast(mask: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Broadcast a mask to the shape of the weights.

    Raises:
        ValueError: its shape does not fit.
    """
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"mask {mask.shape} does not fit weights {shape}") from None


def make_ink(pixels: Any, cell: int) -> Ink:
    """Convert a picture with values from 0 (paper) to 1 (ink) to 8 bits."""
    shades = np.nan_to_num(array(pixels, np.float32, "picture")).clip(0, 1)
    return Ink(np.rint(shades * 255).astype(np.uint8), cell)
