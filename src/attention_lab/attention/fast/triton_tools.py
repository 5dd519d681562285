"""What all our Triton kernels share; Triton itself is imported only by the files with the kernels."""

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor


@cache
def installed() -> bool:
    """Whether Triton is installed, as it is with PyTorch for GPUs on Linux."""
    return find_spec("triton") is not None


@cache
def on_nvidia() -> bool:
    """Whether kernels may contain NVIDIA instructions: not on AMD, and not in Triton's interpreter."""
    return torch.version.cuda is not None and os.environ.get("TRITON_INTERPRET") != "1"


def kernel(function: Callable[..., Any], generic: Sequence[str] = ()) -> Any:
    """A Triton kernel that is compiled once for all values of the generic arguments.

    Triton reads the function's source and globals, which an import hook that checks types would hide.
    """
    from triton import jit

    return jit(unwrap(function), do_not_specialize=generic)


def on_device_of(x: Tensor) -> Any:
    """Make the device of x current, because Triton launches there; no effect on a CPU."""
    return torch.cuda.device_of(x)  # type: ignore[no-untyped-call]
