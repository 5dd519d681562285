"""The hook by which a recording receives the weights of one attention, for the examples it selects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attention_lab.attention.memory import Call, Memory

Examples = int | slice | Sequence[int] | Tensor | None
"""Which examples of a batch: one, some of them, or all (None)."""


@dataclass(frozen=True)
class Recorder:
    """Passes on the weights of one attention.

    Attributes:
        keep: called with the weights, mask and predicted centres of the selected examples.
        examples: the selected examples. A call without a batch dimension is one example, always selected.
    """

    keep: Callable[[Tensor, Tensor | None, Tensor | None], None]
    examples: Examples = None

    def add(self, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Record the selected examples of the weights of a batch, `[Q, K]` or `[B, ..., Q, K]`."""
        chosen, mask, centre = self.of_batch(weights.detach(), mask, centre)
        self.keep(chosen if self.examples is None else chosen.clone(), mask, centre)  # a view would keep all

    def look(self, weigh: Callable[..., Tensor], call: Call) -> None:
        """Compute and keep the weights of what is looked at, where the context came without weights.

        Args:
            weigh: from queries, keys, span and bias to weights.
            call: a call of the attention with a whole batch.
        """
        memory = call.memory
        query, keys, value, mask, bias = self.of_batch(
            call.query, memory.keys, memory.value, memory.mask, call.bias
        )
        chosen = Call(call.window, query, Memory(keys, value, mask, memory.causal), call.offset, bias)
        kind = query.device.type
        # A parameter whose cast were cached here would have no gradient where it is used again.
        cast = torch.autocast(kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=False)
        with torch.no_grad(), cast:
            span = chosen.span
            self.keep(weigh(query, keys, span, bias), span.mask, span.centre)

    def of_batch(self, *tensors: Tensor | None) -> list[Any]:
        """The selected examples of tensors that share a batch dimension.

        The batch is the first dimension of the tensors of the highest rank, unless that rank is two. Tensors
        that are shared by all examples are returned unchanged.
        """
        given = [x for x in tensors if x is not None]
        rank = max(x.dim() for x in given)
        batch = max(len(x) for x in given if x.dim() == rank)
        chosen = self._choose(batch) if rank > 2 else slice(None)
        return [x if x is None or x.dim() < rank or len(x) < batch else x[chosen] for x in tensors]

    def _choose(self, batch: int) -> slice | list[int]:
        """The index of the selected examples in a batch of this size."""
        examples = slice(None) if self.examples is None else self.examples
        if isinstance(examples, slice):
            return examples
        wanted = [examples] if isinstance(examples, int) else [int(example) for example in examples]
        for example in wanted:
            if not -batch <= example < batch:
                raise IndexError(f"recording: there is no example {example} in a batch of {batch}")
        return wanted
