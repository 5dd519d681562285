"""Ensembles of both directions: models that write from left to right, and models that write right to left."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attention_lab.models.ensemble import Ensemble, Writer
from attention_lab.sizes import EOS, PAD


class TwoWayEnsemble(Ensemble):
    r"""Models of both directions, whose scores of entire outputs are averaged.

    .. math:: \frac{M \log \overrightarrow{p}(y \mid x) + N \log \overleftarrow{p}(y \mid x)}{M + N}

    where the directions are `Ensemble`s of M and N models (after Liu et al. 2016, NAACL, N16-1046). A
    model that writes from left to right decides the beginning of a word without its end, and the other way
    round, so that they make different errors. They cannot be stepped together: see `two_way_search`. All
    that goes step by step, such as `forward`, is that of the models from left to right alone.

    Args:
        members: models that write from left to right.
        backward: models that read and write from right to left, with the same vocabularies.
        tags: the source symbols that keep their place when a source is turned; see `Notation`.
    """

    def __init__(self, members: Sequence[Writer], backward: Sequence[Writer], tags: Collection[int]) -> None:
        super().__init__(members)
        self.backward = Ensemble(backward)
        self.register_buffer("tags", torch.tensor(sorted(tags), dtype=torch.int64), persistent=False)

    tags: Tensor

    @property
    def members(self) -> list[Writer]:
        """The models that write from left to right, in order."""
        return [model for name, model in self.named_children() if name != "backward"]  # type: ignore[misc]

    @property
    def longest(self) -> int:
        """The longest output that every member can write, in symbols."""
        return min(super().longest, self.backward.longest)

    def turned(self, source: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        """Sources as the other direction reads them: each run of letters turned, tags in their place."""
        return turned(source, (source == PAD) | (source == EOS) | torch.isin(source, self.tags))


class Direction(NamedTuple):
    """One direction of a model that writes.

    Attributes:
        model: the model.
        source: the sources as it reads them.
        turns: whether its outputs are turned.
        share: its share in the score.
    """

    model: Writer | Ensemble
    source: Tensor
    turns: bool = False
    share: float = 1.0

    def outputs(self, ids: Int[Tensor, "*N T"]) -> Int[Tensor, "*N T"]:
        """Outputs from the order of this direction to left to right, or back."""
        return turned(ids, (ids == PAD) | (ids == EOS)) if self.turns else ids


def directions(model: Writer | Ensemble, source: Tensor) -> list[Direction]:
    """The directions of a model: both of a `TwoWayEnsemble`, else one."""
    if not isinstance(model, TwoWayEnsemble):
        return [Direction(model, source)]
    there, back = len(model.members), len(model.backward.members)
    return [
        Direction(model, source, share=there / (there + back)),
        Direction(model.backward, model.turned(source), turns=True, share=back / (there + back)),
    ]


def turned(ids: Int[Tensor, "*N T"], stays: Bool[Tensor, "*N T"]) -> Int[Tensor, "*N T"]:
    """Each run of symbols turned around, between those that stay where they are."""
    places = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    first = torch.where(stays, places + 1, 0).cummax(-1).values
    last = torch.where(stays, places - 1, ids.shape[-1] - 1).flip(-1).cummin(-1).values.flip(-1)
    return ids.gather(-1, torch.where(stays, places, first + last - places))
