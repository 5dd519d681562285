"""The module that computes an attention."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

Place = tuple[int, ...]
"""The position in the code of each frame, from a module's method to the call of a function."""


@dataclass(frozen=True)
class Site:
    """The module that computes an attention.

    Attributes:
        name: its name in the model.
        module: the module.
        seen: the number of keys so far, if the cache holds only the last of them; see `caches`.
        place: the call of the module, and where in its code the attention is computed; None if a module
            computes only one.
    """

    name: str
    module: nn.Module
    seen: int = 0
    place: tuple[int, Place] | None = None

    def heads(self, examples: int) -> int:
        """The number of heads of the module, for tensors whose first dimension is examples times heads."""
        return next((heads for heads in self._numbers_of_heads() if examples % heads == 0), 1)

    @property
    def number_of_heads(self) -> int | None:
        """The number of heads of the module, if it says so."""
        return next(self._numbers_of_heads(), None)

    def _numbers_of_heads(self) -> Iterator[int]:
        for name in ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads"):
            heads = getattr(self.module, name, None)
            if isinstance(heads, int) and heads > 0:
                yield heads
