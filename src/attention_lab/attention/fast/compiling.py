"""When one of our kernels is worth compiling by inductor, and what happens where it cannot be."""

import logging
import warnings
from collections.abc import Callable, Sequence
from subprocess import SubprocessError
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from attention_lab.errors import named_line

log = logging.getLogger(__name__)

WORTH = 2**24
"""Hidden units of one call from which compiling pays unasked.

Inductor takes 10 to 20 seconds the first time, a few once its cache on disk is warm. A call of this size and
its gradient take 20 ms in chunks and 9 compiled: that pays after some hundred steps with a warm cache, two
thousand without; with a larger call, sooner.
"""


class _NotNow(RuntimeError):  # noqa: N818
    """The function is run as it stands, as where `torch.compiler.set_stance` says so: it must not be."""


def pays(work: int, wanted: bool | None) -> bool:
    """Whether a call with so many hidden units is to be compiled.

    It depends on the size of the call alone, not on what came before, so that a run that was interrupted and
    goes on computes what it would have computed.

    Args:
        work: hidden units that the call goes through.
        wanted: the user's wish; None: none.
    """
    return work >= WORTH if wanted is None else wanted


class Kernel:
    """A function of tensors, compiled when it is first called; quietly given up for good if that fails.

    Sizes are dynamic: only sizes of 1 are compiled for themselves. To that end the first compilation is of
    `sample`, whose sizes are all different, or inductor would take equal ones for always equal; what comes
    out is compared with the function itself.

    Args:
        function: from tensors to tensors, without side effects.
        sample: arguments of a usual size.
    """

    def __init__(
        self, function: Callable[..., Sequence[Tensor]], sample: Callable[[], Sequence[Tensor]]
    ) -> None:
        self.function, self.sample = function, sample
        self._compiled: Callable[..., Sequence[Tensor]] | None = None
        self._seen: set[Any] = set()
        self.failed = False

    def __call__(self, *arguments: Tensor) -> Sequence[Tensor] | None:
        """The results, or None if the function cannot be compiled here."""
        if self.failed:
            return None
        device, dtype = arguments[0].device, arguments[0].dtype
        kind = (device.type, dtype, *(size == 1 for x in arguments for size in x.shape))
        try:
            if self._compiled is not None and kind in self._seen:
                return self._compiled(*arguments)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # inductor's own, of what it does inside
                if self._compiled is None:
                    self._compiled = self._compile([x.to(device, dtype) for x in self.sample()])
                self._seen.add(kind)
                return self._compiled(*arguments)
        except _NotNow:
            return None
        except _errors() as error:
            self.failed = True
            log.debug("not compiled: %s", named_line(error))
            return None

    def _compile(self, sample: Sequence[Tensor]) -> Callable[..., Sequence[Tensor]]:
        def function(*arguments: Tensor) -> Sequence[Tensor]:
            if not torch.compiler.is_compiling():
                raise _NotNow
            return self.function(*arguments)

        # Dynamo counts compilations by code object, and gives up at eight: a code object for each kernel.
        own = FunctionType(function.__code__.replace(), globals(), closure=function.__closure__)
        # fullgraph: else Dynamo would run the function as it stands when it gives up, with all its memory
        compiled: Callable[..., Sequence[Tensor]] = torch.compile(
            own, dynamic=True, fullgraph=True, options={"compile_threads": 1}
        )
        for found, wanted in zip(compiled(*sample), self.function(*sample), strict=True):
            if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3):
                raise RuntimeError("the compiled kernel gives something else")
        return compiled


def _errors() -> tuple[type[Exception], ...]:
    """All that compiling may raise."""
    from torch._dynamo import exc  # only here: slow to import, and by now it is

    limit = getattr(exc, "FailOnRecompileLimitHit", RuntimeError)  # the only one that is no RuntimeError
    return RuntimeError, OSError, ImportError, SubprocessError, limit
