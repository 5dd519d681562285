"""Helpers for all our Triton kernels; only the files with the kernels import Triton itself."""

import logging
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import unwrap
from subprocess import SubprocessError
from typing import Any

import torch
from torch import Tensor

from attention_lab.errors import named_line

log = logging.getLogger(__name__)


@cache
def triton_works() -> bool:
    """Whether Triton can launch kernels on the GPU here; if it is installed but cannot, warns why.

    PyTorch for GPUs on Linux comes with Triton. But Triton compiles its driver and its launchers with a C
    compiler and Python's headers, which many containers lack.
    """
    if find_spec("triton") is None:
        return False
    try:
        import_module("triton.runtime").driver.active.get_current_device()  # compiles the driver
    except (RuntimeError, SubprocessError, OSError, ImportError, AssertionError) as error:
        log.warning(
            "Triton does not work here (%s), so that some attention is slower: install a C compiler such as "
            "gcc, and Python's headers (python3-dev)",
            named_line(error),
        )
        return False
    return True


@cache
def shared_memory(device: int) -> int:
    """Bytes of shared memory that a program may use on a GPU; Triton launches none that needs more."""
    utils = import_module("triton.runtime").driver.active.utils
    return int(utils.get_device_properties(device)["max_shared_mem"])


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
