"""The contents of a recording: weights and masks by the name of the module that computed them."""

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor


class Recording(Mapping[str, Tensor]):
    """The weights `[B, H, Q, K]` of every attention that ran, by module name, in order of execution.

    B is the number of selected examples; if heads or queries are selected, H and Q are their numbers. The
    weights are detached, and taken before dropout. Several calls of one attention, such as the steps of a
    decoder, are concatenated along the queries; where later calls have more keys, earlier ones are padded
    with masked cells. Calls with a different number of examples or heads are `name#2`, `name#3`, and so on.
    A missing batch or head dimension has size 1. A model that is itself the attention has the name `""`, as
    in `named_modules`.
    """

    def __init__(self) -> None:
        self._weights: dict[str, list[Tensor]] = {}
        self._masks: dict[str, list[Tensor]] = {}
        self._centres: dict[str, list[Tensor]] = {}

    def add(self, name: str, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Record the weights and the mask of one call, `[Q, K]`, `[B, Q, K]` or `[B, H, Q, K]`.

        `centre` has the same dimensions, with a last dimension of size 1.
        """
        if centre is not None:
            self._centres.setdefault(name, []).append(four_dimensional(centre.detach()))
        mask = weights.new_ones((), dtype=torch.bool) if mask is None else mask
        self._weights.setdefault(name, []).append(four_dimensional(weights.detach()))
        self._masks.setdefault(name, []).append(four_dimensional(mask.expand_as(weights)))

    def drop(self, name: str) -> None:
        """Drop the last call that was recorded under a name."""
        for parts in (self._weights, self._masks):
            parts[name].pop()
            if not parts[name]:
                del parts[name]

    def mask(self, name: str) -> Tensor:
        """The mask under which `self[name]` was computed, of the same shape, True = attended."""
        self._check(name)
        return _joined(self._masks[name])

    def centre(self, name: str) -> Tensor | None:
        """The positions `[B, H, Q]` that the window predicted for the queries; None without a prediction."""
        self._check(name)
        return _joined(self._centres[name]).squeeze(-1) if name in self._centres else None

    def __getitem__(self, name: str) -> Tensor:
        self._check(name)
        return _joined(self._weights[name])

    def _check(self, name: str) -> None:
        """Raise KeyError, listing the names of the recorded attentions, if this is not among them."""
        if name not in self._weights:
            known = ", ".join(map(_shown, self)) or "no attentions"
            raise KeyError(f"{_shown(name)} is not in the recording, which has {known}")

    def __repr__(self) -> str:
        """The shape of the weights of each attention."""
        if not self:
            return (
                "Recording of no attention: it covers the attention kernels and modules of torch and "
                "transformers, attention_lab's Attention, and a hand-written softmax multiplied by the values"
            )
        shapes = [f"  {_shown(name)}: {list(weights.shape)}" for name, weights in self.items()]
        count = "1 attention" if len(self) == 1 else f"{len(self)} attentions"
        return "\n".join([f"Recording of {count}, [B, H, Q, K]", *shapes])

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _shown(name: str) -> str:
    """A name; that of the model itself, which is empty, in quotes."""
    return name or repr(name)


def _joined(parts: list[Tensor]) -> Tensor:
    """Concatenate the parts along the queries; the list then holds only the result."""
    if len(parts) > 1:
        keys = max(part.shape[-1] for part in parts)
        parts[:] = [torch.cat([F.pad(part, (0, keys - part.shape[-1])) for part in parts], dim=2)]
    return parts[0]


def four_dimensional(x: Tensor) -> Tensor:
    """`x` with a batch and a head dimension."""
    return x[None, None] if x.dim() == 2 else x.unsqueeze(1) if x.dim() == 3 else x
