"""The calls of attention functions seen while a model ran."""

from typing import NamedTuple

from torch import Tensor, nn

from attention_lab.attention.attention import Attention, Mechanism
from attention_lab.attention.torch_state import autocast_dtype

PART = "mechanism"
"""The name of the new attention in its module."""


class FoundCall(NamedTuple):
    """A call of an attention function by a module.

    Attributes:
        query: the queries `[B, H, Q, d]`, without their values.
        key_size: the size of a key.
        reason_against: why a mechanism cannot replace this attention; None if it can.
    """

    query: Tensor
    key_size: int
    reason_against: str | None = None

    def new_attention(self, module: nn.Module, mechanism: Mechanism) -> Attention:
        """An attention for the module, on the device and in the precision of its queries."""
        attention = mechanism(self.query.shape[-1], self.key_size, self.query.shape[1])
        return attention.to(self.query.device, self.query.dtype).train(module.training)


class Calls(NamedTuple):
    """The calls of one replaceable attention function by the modules of a model.

    Attributes:
        last: the last call of each module.
        missed: the modules that would call the function, but did not run.
    """

    last: dict[nn.Module, FoundCall]
    missed: list[nn.Module]


def without_values(x: Tensor, module: nn.Module) -> Tensor:
    """A tensor of the same shape and device that takes no memory.

    It has the precision of `x` or, under autocast, which lowers only that of computations, of the module.
    """
    kept = [one.dtype for one in module.parameters() if one.is_floating_point()]
    dtype = kept[0] if kept and autocast_dtype(x) == x.dtype else x.dtype
    return x.new_empty((), dtype=dtype).expand(x.shape)
