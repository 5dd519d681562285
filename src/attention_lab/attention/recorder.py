"""What a recording sees of an attention: the weights of the examples that it looks at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Examples = int | slice | Sequence[int] | Tensor | None
"""Which examples of a batch: one, some of them, or all (None)."""


@dataclass(frozen=True)
class Recorder:
    """Keeps weights of one attention.

    Attributes:
        keep: takes weights, mask and predicted centres of the examples looked at.
        examples: these examples. A call without a batch dimension is one example, always looked at.
    """

    keep: Callable[[Tensor, Tensor | None, Tensor | None], None]
    examples: Examples = None

    def add(self, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Keep what is looked at of the weights of a whole batch, `[Q, K]` or `[B, ..., Q, K]`."""
        chosen, mask, centre = self.of_batch(weights.detach(), mask, centre)
        self.keep(chosen if self.examples is None else chosen.clone(), mask, centre)  # not a view of them all

    def of_batch(self, *tensors: Tensor | None) -> list[Any]:
        """What of tensors with a common batch belongs to the examples looked at.

        The batch is the first dimension of those of the highest rank, unless they have only two; what is
        the same for all examples stays as it is.
        """
        given = [x for x in tensors if x is not None]
        rank = max(x.dim() for x in given)
        batch = max(len(x) for x in given if x.dim() == rank)
        chosen = self._choose(batch) if rank > 2 else slice(None)
        return [x if x is None or x.dim() < rank or len(x) < batch else x[chosen] for x in tensors]

    def _choose(self, batch: int) -> slice | list[int]:
        """The index of the examples looked at in a batch of this size."""
        examples = slice(None) if self.examples is None else self.examples
        if isinstance(examples, slice):
            return examples
        wanted = [examples] if isinstance(examples, int) else [int(example) for example in examples]
        for example in wanted:
            if not -batch <= example < batch:
                raise IndexError(f"recording: there is no example {example} in a batch of {batch}")
        return wanted
