"""The dtype that autocast computes in, and code without autocast; the meta device has no autocast."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def autocast_dtype(x: Tensor) -> torch.dtype | None:
    """What autocast casts to on the device of `x`; None if it is off."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if kind != "meta" and torch.is_autocast_enabled(kind) else None


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype of a matrix product with `x`: under autocast what it casts to, except for float64."""
    return x.dtype if x.dtype == torch.float64 else autocast_dtype(x) or x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which nothing is cast to half precision on the device of `x`."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def uncached_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Autocast as it is on the device of `x`, but without its cache.

    A parameter whose cast was cached under `no_grad` would get no gradient where it is used again.
    """
    kind = x.device.type
    if kind == "meta":
        return nullcontext()
    return torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=False)
