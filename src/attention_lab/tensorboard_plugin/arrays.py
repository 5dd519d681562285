"""Convert tensors, arrays and lists to the arrays of a record."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from attention_lab.tensorboard_plugin.record import Ink

_SLACK = 0.01  # rounding may move weights outside [0, 1] by this much


def array(value: Any, dtype: Any, name: str) -> npt.NDArray[Any]:
    """Convert a tensor, an array, or a list of numbers, tensors or lists to a NumPy array.

    Raises:
        ValueError: it is not an array of numbers, or, for the type bool, has others than 0 and 1, or for
            integers, others than whole numbers.
    """
    try:
        found = np.asarray(_without_tensors(value))
        if found.dtype.kind in "cOSUmM":
            raise ValueError(f"{found.dtype} is not a real number")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if dtype is np.bool_ and (others := found[(found != 0) & (found != 1)]).size:
        raise ValueError(
            f"{name} must be true or false, or 1 and 0, not {others[0]}; "
            f"if it is added to the scores, give {name} == 0"
        )
    if np.issubdtype(dtype, np.integer):
        if found.dtype.kind == "b":
            raise ValueError(f"{name} must be whole numbers, not true or false")
        if (parts := found[found != np.rint(found)]).size:
            raise ValueError(f"{name} must be whole numbers, not {parts[0]}")
    with np.errstate(over="ignore", invalid="ignore"):
        return found.astype(dtype, copy=False)


def _without_tensors(value: Any) -> Any:
    """The value with arrays in place of tensors: NumPy lacks gradients and some float types."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() else value).numpy()
    if isinstance(value, list | tuple) and any(
        isinstance(one, list | tuple) or hasattr(one, "detach") for one in value
    ):
        return [_without_tensors(one) for one in value]
    return value


def warn_if_clipped(
    weights: npt.NDArray[np.float32], name: str, mask: npt.NDArray[np.bool_] | None = None
) -> None:
    """Warn, in the name of the caller's caller, if weights that `mask` does not hide are outside [0, 1].

    Args:
        weights: of any shape; NaN is within the range.
        name: the function and the weights, for the message.
        mask: of the same shape, True = attended; None if everything is.
    """
    attended = True if mask is None else mask
    low = np.fmin.reduce(weights, axis=None, initial=0, where=attended)
    high = np.fmax.reduce(weights, axis=None, initial=1, where=attended)
    if low < -_SLACK or high > 1 + _SLACK:
        message = f"{name} outside 0 to 1 are clipped: give weights, not the scores before the softmax"
        warnings.warn(message, stacklevel=3)


def broadcast(mask: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Broadcast a mask to the shape of the weights.

    Raises:
        ValueError: its shape does not fit.
    """
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(f"mask {mask.shape} does not fit weights {shape}") from None


def make_ink(pixels: Any, cell: int, by_row: bool = False) -> Ink:
    """Convert a picture with values from 0 (paper) to 1 (ink) to 8 bits; see `Ink`."""
    shades = np.nan_to_num(array(pixels, np.float32, "picture")).clip(0, 1)
    return Ink(np.rint(shades * 255).astype(np.uint8), cell, bool(by_row))
