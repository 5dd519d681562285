"""Which operators a piece of code calls."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):
    """Counts the calls of each operator inside, by its name, such as `masked_fill`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the call, and make it."""
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **kwargs or {})
