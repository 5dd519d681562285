"""When to compile one of our kernels with inductor, and how to fall back if that fails."""

import logging
import warnings
from collections.abc import Callable, Sequence
from subprocess import SubprocessError
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from attention_lab.errors import is_out_of_memory, named_line

log = logging.getLogger(__name__)

LEAST_WORK = 2**24
"""Calls with at least this many hidden units are compiled unless told not to.

Inductor takes 10 to 20 seconds the first time, and a few seconds once its cache on disk is warm. A call of
this size and its gradient take 20 ms in chunks and 9 ms compiled: that pays off after a few hundred steps
with a warm cache, and after two thousand without; sooner for larger calls.
"""


class _NotNow(RuntimeError):  # noqa: N818
    """Raised if the function would run uncompiled, for example because of `torch.compiler.set_stance`."""


def worth_compiling(work: int, wanted: bool | None) -> bool:
    """Whether to compile a call with `work` hidden units.

    The answer depends only on the size of the call, not on earlier calls, so that a resumed run computes
    the same as an uninterrupted one.

    Args:
        work: hidden units that the call computes.
        wanted: the user's choice; None to decide by size.
    """
    return work >= LEAST_WORK if wanted is None else wanted


class CompiledFunction:
    """A function of tensors, compiled on its first call; if compiling fails, it is never tried again.

    Sizes are dynamic; only sizes of 1 are compiled separately. The first compilation therefore uses `sample`,
    whose sizes are all different; otherwise inductor would assume that equal sizes are always equal. Its
    result is compared with that of the uncompiled function.

    Args:
        function: from tensors to tensors, without side effects.
        sample: makes arguments of typical sizes.
    """

    def __init__(
        self, function: Callable[..., Sequence[Tensor]], sample: Callable[[], Sequence[Tensor]]
    ) -> None:
        self.function, self.sample = function, sample
        self._compiled: Callable[..., Sequence[Tensor]] | None = None
        self._seen: set[Any] = set()
        self.failed = False

    def __call__(self, *arguments: Tensor) -> Sequence[Tensor] | None:
        """The results, or None if the function cannot be compiled here.

        Raises:
            RuntimeError: there is not enough memory.
        """
        if self.failed:
            return None
        device, dtype = arguments[0].device, arguments[0].dtype
        kind = (device.type, dtype, *(size == 1 for x in arguments for size in x.shape))
        try:
            if self._compiled is not None and kind in self._seen:
                return self._compiled(*arguments)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # inductor's warnings about its own internals
                if self._compiled is None:
                    self._compiled = self._compile([x.to(device, dtype) for x in self.sample()])
                self._seen.add(kind)
                return self._compiled(*arguments)
        except _NotNow:
            return None
        except _errors() as error:
            if is_out_of_memory(error):
                raise
            self.failed = True
            log.debug("not compiled: %s", named_line(error))
            return None

    def _compile(self, sample: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
        def function(*arguments: Tensor) -> Sequence[Tensor]:
            if not torch.compiler.is_compiling():
                raise _NotNow
            return self.function(*arguments)

        # Dynamo counts compilations per code object and gives up at eight, so each kernel gets its own.
        own = FunctionType(function.__code__.replace(), globals(), closure=function.__closure__)
        # fullgraph: otherwise Dynamo would fall back to running the function eagerly, with all its memory
        compiled: Callable[..., Sequence[Tensor]] = torch.compile(
            own, dynamic=True, fullgraph=True, options={"compile_threads": 1}
        )
        for found, wanted in zip(compiled(*sample), self.function(*sample), strict=True):
            if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3):
                raise RuntimeError("the compiled kernel and the plain function differ")
        return compiled


def _errors() -> tuple[type[Exception], ...]:
    """All exceptions that compiling may raise."""
    from torch._dynamo import exc  # imported late: slow, but by now it is loaded

    # the last one is not a RuntimeError
    return RuntimeError, OSError, ImportError, SubprocessError, exc.FailOnRecompileLimitHit
