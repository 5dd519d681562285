"""Which operators a piece of code calls, and how large their results are."""

from collections import Counter
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Operators(TorchDispatchMode):
    """Counts the calls of each operator inside, by its name, such as `masked_fill`.

    Attributes:
        calls: the number of calls of each operator.
        largest: the most numbers in the memory of one result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the call, and make it."""
        self.calls[func.overloadpacket.__name__] += 1
        result = func(*args, **kwargs or {})
        for x in tree_leaves(result):
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return result
