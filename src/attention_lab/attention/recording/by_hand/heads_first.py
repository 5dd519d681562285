"""Whether heads come before examples in a dimension that contains both."""

from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attention_lab.attention.recording.by_hand.calls import TorchCall, listed

_COPIES = {"contiguous", "clone"}
_JOINING = {"view", "reshape", "flatten"}
_GATHERING = {"cat", "stack"}
_FIRST = _COPIES | _JOINING | _GATHERING


class HeadsFirst:
    """Follows tensors from the dimensions `[heads, examples, ...]` to the one that contains both.

    A layer computes the features of all heads of a position at once. So the dimension of the heads has a
    smaller stride than those of examples and positions, until the tensor is copied.
    """

    def __init__(self) -> None:
        self._found: Any = WeakTensorKeyDictionary()

    def __contains__(self, x: Tensor) -> bool:
        return x in self._found

    def see(self, call: TorchCall, result: Any) -> None:
        """Note the result of a function that joins heads and examples, or prepares to."""
        if not self._found and call.name not in _FIRST:
            return
        x = next(iter(listed(call.first)), None)
        if not isinstance(x, Tensor) or not isinstance(result, Tensor) or x.is_nested or result.is_nested:
            return
        if call.name in _GATHERING:
            found = call.dim(result, default=0) == -result.dim() and _are_features(x)
        elif x.dim() == 4 and call.name in _COPIES | _JOINING:
            joins = result.shape[1:] == x.shape[2:]
            found = (joins or call.name in _COPIES) and (x in self or _is_turned(x))
        else:
            found = x.dim() == 3 and x in self
        if found:
            self._found[result] = True


def _is_turned(x: Tensor) -> bool:
    """Whether `x` of four dimensions is `[heads, examples, positions, d]`, and not a copy."""
    return 0 < x.stride(0) < min(x.stride(1), x.stride(2))


def _are_features(x: Tensor) -> bool:
    """Whether `x` is `[examples, positions, d]`, with some of the features of a larger tensor."""
    return x.dim() == 3 and min(x.stride(0), x.stride(1)) > x.shape[2]
