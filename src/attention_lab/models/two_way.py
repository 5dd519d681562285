"""Ensembles of both directions: models that generate from left to right, and from right to left."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attention_lab.models.ensemble import Ensemble
from attention_lab.models.transduction import TransductionModel
from attention_lab.special_symbols import BOS, EOS, PAD


class TwoWayEnsemble(Ensemble):
    """Models of both directions, which together score complete outputs.

        (M log p_forwards(y | x) + N log p_backwards(y | x)) / (M + N)

    where the directions are `Ensemble`s of M and N models (after Liu et al. 2016, NAACL, N16-1046). A model
    that generates from left to right decides the beginning of a word without knowing its end; a model that
    generates from right to left does the opposite. They therefore make different errors. The two directions
    cannot advance step by step together: see `two_way_search`. Everything that works step by step, such as
    `forward`, and the recorded weights come from the left-to-right models alone.

    Args:
        members: models that generate from left to right.
        right_to_left: models that read and generate from right to left, with the same vocabularies.
        tags: the source symbols that keep their place when a source is reversed; see `Notation`.
    """

    fixed: Tensor

    def __init__(
        self,
        members: Sequence[TransductionModel],
        right_to_left: Sequence[TransductionModel],
        tags: Collection[int],
    ) -> None:
        super().__init__(members)
        self.right_to_left = Ensemble(right_to_left)
        # BOS stands for an unknown tag, see `Tokenizer.ids`.
        fixed = torch.tensor([PAD, BOS, EOS, *sorted(tags)])
        self.register_buffer("fixed", fixed, persistent=False)

    @property
    def members(self) -> list[TransductionModel]:
        """The models that generate from left to right, in order."""
        return [model for name, model in self.named_children() if name != "right_to_left"]  # type: ignore[misc]

    @property
    def all_members(self) -> list[TransductionModel]:
        """The models of both directions."""
        return [*self.members, *self.right_to_left.members]

    @property
    def longest(self) -> int:
        """The longest output that every member can generate, in symbols."""
        return min(super().longest, self.right_to_left.longest)

    def directions(self, source: Int[Tensor, "B S"]) -> "tuple[Direction, Direction]":
        """Both directions, each with the sources as it reads them: reversed sources keep tags in place."""
        share = len(self.members) / len(self.all_members)
        backward = reversed_runs(source, torch.isin(source, self.fixed))
        return (
            Direction(self, source, share),
            Direction(self.right_to_left, backward, 1 - share, reverses=True),
        )


class Direction(NamedTuple):
    """One direction of a `TwoWayEnsemble`.

    Attributes:
        model: the models of this direction.
        source: the sources as these models read them.
        share: the weight of this direction in the score.
        reverses: whether the outputs are generated from right to left.
    """

    model: Ensemble
    source: Tensor
    share: float
    reverses: bool = False

    def outputs(self, ids: Int[Tensor, "*N T"]) -> Int[Tensor, "*N T"]:
        """Convert outputs from left-to-right order to the order of this direction, or back."""
        return reversed_runs(ids, (ids == PAD) | (ids == EOS)) if self.reverses else ids


def reversed_runs(ids: Int[Tensor, "*N T"], fixed: Bool[Tensor, "*N T"]) -> Int[Tensor, "*N T"]:
    """Reverse each run of symbols between those that are `fixed`."""
    positions = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    first = torch.where(fixed, positions + 1, 0).cummax(-1).values
    last = torch.where(fixed, positions - 1, ids.shape[-1] - 1).flip(-1).cummin(-1).values.flip(-1)
    return ids.gather(-1, torch.where(fixed, positions, first + last - positions))
