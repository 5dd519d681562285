"""Weights on demand: run a model as usual, and look at the weights of each of its attentions."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from attention_lab.attention.attention import Attention
from attention_lab.attention.recorder import Examples, Recorder


class Recording(Mapping[str, Tensor]):
    """The weights `[B, H, Q, K]` of every attention that ran, by module name, in order of execution.

    B is the number of selected examples. The weights are detached, and taken before dropout. Several calls of
    one attention, such as the steps of a decoder, are concatenated along the queries; a missing batch or head
    dimension is 1.
    """

    def __init__(self) -> None:
        self._weights: dict[str, list[Tensor]] = {}
        self._masks: dict[str, list[Tensor]] = {}
        self._centres: dict[str, list[Tensor]] = {}

    def add(self, name: str, weights: Tensor, mask: Tensor | None, centre: Tensor | None = None) -> None:
        """Record the weights and the mask of one call, `[Q, K]`, `[B, Q, K]` or `[B, H, Q, K]`.

        `centre` has the same dimensions, the last of size 1.
        """
        if centre is not None:
            self._centres.setdefault(name, []).append(_four(centre.detach()))
        mask = weights.new_ones((), dtype=torch.bool) if mask is None else mask
        self._weights.setdefault(name, []).append(_four(weights.detach()))
        self._masks.setdefault(name, []).append(_four(mask.expand_as(weights)))

    def mask(self, name: str) -> Tensor:
        """The mask under which `self[name]` was computed, of the same shape, True = attended."""
        return _joined(self._masks[name])

    def centre(self, name: str) -> Tensor | None:
        """The positions `[B, H, Q]` that the window predicted for the queries; None if it predicts none."""
        return _joined(self._centres[name]).squeeze(-1) if name in self._centres else None

    def __getitem__(self, name: str) -> Tensor:
        return _joined(self._weights[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _joined(parts: list[Tensor]) -> Tensor:
    """The parts concatenated; the list then holds only the result."""
    if len(parts) > 1:
        parts[:] = [torch.cat(parts, dim=2)]
    return parts[0]


def _four(x: Tensor) -> Tensor:
    """`x` with a batch and a head dimension."""
    return x[None, None] if x.dim() == 2 else x.unsqueeze(1) if x.dim() == 3 else x


@contextmanager
def recording(
    model: nn.Module, examples: Examples = None, *, names: Collection[str] | None = None
) -> Iterator[Recording]:
    """Record the weights of the attentions in `model`.

    Example:
        with recording(model) as weights:
            model(batch)
        weights["encoder.layers.0.attention"]  # [B, H, Q, K]

    The model computes the same results by the same paths. If a path does not form the weights, they are
    recomputed from the scores, without gradient. Outside the `with` block nothing is computed or stored.

    Args:
        model: the model that runs inside the block.
        examples: the examples of each batch to record, in this order: an index, a slice or several indices;
            None for all. Only their weights are computed and stored.
        names: names of the attentions to record; None for all.

    Raises:
        KeyError: the model has no attention of that name.
        IndexError: (when the model is run) a batch is too small for an index.
    """
    result = Recording()
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, Attention)]
    if names is not None:
        modules = dict(found)
        found = [(name, modules[name]) for name in names]
    before = [module.record for _, module in found]
    for name, module in found:
        module.record = Recorder(partial(result.add, name), examples)
    try:
        yield result
    finally:
        for (_, module), record in zip(found, before, strict=True):
            module.record = record
