"""A buffer whose values are computed, not loaded."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class ConstantBuffer(nn.Module):
    """Base of the positions with a constant buffer, which is not in checkpoints.

    With any other buffer, `to_empty` and `load_state_dict(assign=True)` would lose the values.
    """

    constant: str
    """The name of the buffer."""

    def values(self) -> Tensor:
        """The values of the buffer."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Convert or move the module, and fill the buffer again."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._fill(getattr(self, self.constant).device)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        """Load weights; if they are assigned to a module on the meta device, fill the buffer on the CPU."""
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
        if getattr(self, self.constant).is_meta and local_metadata.get("assign_to_params_buffers"):
            self._fill(torch.device("cpu"))

    def _fill(self, device: torch.device) -> None:
        """Give the buffer its values, on this device."""
        with torch.device("cpu"):  # the default device may be the meta device
            values = self.values()
        setattr(self, self.constant, values.to(device, getattr(self, self.constant).dtype))
