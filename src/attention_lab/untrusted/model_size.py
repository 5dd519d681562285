"""Limit the size of a model that is built from a file, before it takes any memory."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from attention_lab.errors import LabError

MOST_TENSORS = 100_000
"""Maximum number of parameters and buffers of any model."""
_EXTRA = 16_000_000  # numbers in a model that are not in its file, such as tables of positions


class TooLargeError(LabError):
    """The model has far more numbers than its checkpoint, or than fit in memory."""


def size_limits(weights: Collection[Tensor]) -> tuple[int, int]:
    """The largest number of elements, and of tensors, that a model with these weights may have."""
    return 2 * sum(map(Tensor.numel, weights)) + _EXTRA, 2 * len(weights) + 1_000


@contextmanager
def limit_size(numbers: int, count: int) -> Iterator[None]:
    """Raise TooLargeError as soon as modules register more than `numbers` elements or `count` tensors."""

    def count_down(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        """Subtract a new parameter or buffer from what is still allowed."""
        nonlocal numbers, count
        count -= 1
        numbers -= 0 if tensor is None else tensor.numel()
        if numbers < 0 or count < 0:
            raise TooLargeError("the weights do not fit the model: there are far fewer")

    hooks = (
        register_module_parameter_registration_hook(count_down),
        register_module_buffer_registration_hook(count_down),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
