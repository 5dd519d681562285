"""The module that computes an attention."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Site:
    """The module that computes an attention.

    Attributes:
        name: its name in the model.
        module: the module.
        seen: the number of keys so far, if the cache holds only the last of them; see `caches`.
    """

    name: str
    module: nn.Module
    seen: int = 0

    def heads(self, examples: int) -> int:
        """The number of heads of the module, for tensors whose first dimension is examples times heads."""
        for name in ("num_heads", "n_heads", "n_head", "heads", "num_attention_heads"):
            heads = getattr(self.module, name, None)
            if isinstance(heads, int) and heads > 0 and examples % heads == 0:
                return heads
        return 1
