"""Ensembles: several models used as one, with the mean of their probabilities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_lab.errors import LabError
from attention_lab.models.transduction import TransductionModel


class Members(nn.Module):
    """Several models in one module, `member 1`, `member 2` and so on.

    Args:
        members: the models.

    Raises:
        LabError: there are none.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        if not members:
            raise LabError("an ensemble needs at least one model")
        for number, member in enumerate(members, start=1):
            self.add_module(f"member {number}", member)


class ClassifierEnsemble(Members):
    """M classifiers with the same labels, used as one.

        p(c | x) = 1/M sum_{m=1}^M p_m(c | x)

    Members may be of any kind and have any attention. They are not trained further.

    Args:
        members: the models. Their attentions are recorded as `member 1.encoder.layers.0.attention` and so on.

    Raises:
        LabError: there are no members.
    """

    def forward(self, *inputs: Tensor) -> Float[Tensor, "*N C"]:
        """The logarithms of the probabilities."""
        return mean_of([member(*inputs) for member in self.children()])


class Ensemble(Members):
    """M models with the same vocabularies that generate together, used as one.

        p(y_t | y_<t, x) = 1/M sum_{m=1}^M p_m(y_t | y_<t, x)

    This is the arithmetic mean of the probabilities, a uniform mixture at every step: the search continues
    the same prefix in all members (like the ensembles of 1409.3215, section 3.6). The mean is computed in the
    log domain. Members may be of any kind and have any attention. They are not trained further.

    Args:
        members: the models. Their attentions are recorded as `member 1.decoder.attention` and so on.

    Raises:
        LabError: there are no members.
    """

    latent: None = None

    def __init__(self, members: Sequence[TransductionModel]) -> None:
        super().__init__(members)

    @property
    def members(self) -> list[TransductionModel]:
        """The models, in order."""
        return list(self.children())  # type: ignore[arg-type]

    @property
    def all_members(self) -> list[TransductionModel]:
        """The models of all directions: here the same as `members`."""
        return self.members

    @property
    def longest(self) -> int:
        """The longest output that every member can generate, in symbols."""
        return min(member.longest for member in self.members)

    def forward(
        self,
        source: Shaped[Tensor, "B S *rest"],
        source_lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """Log-probabilities under teacher forcing; see `TransductionModel.forward`."""
        return mean_of([member(source, source_lengths, target) for member in self.members])

    def start(
        self, source: Shaped[Tensor, "B S *rest"], source_lengths: Int[Tensor, " B"]
    ) -> tuple[Any, ...]:
        """The states of all members before the first symbol."""
        return tuple(member.start(source, source_lengths) for member in self.members)

    def step(
        self, tokens: Int[Tensor, " N"], state: tuple[Any, ...]
    ) -> tuple[Float[Tensor, "N V"], tuple[Any, ...]]:
        """Log-probabilities of the symbols after `tokens`, and the states after them."""
        steps = [member.step(tokens, own) for member, own in zip(self.members, state, strict=True)]
        return mean_of([logits for logits, _ in steps]), tuple(own for _, own in steps)

    def select(self, state: tuple[Any, ...], index: Int[Tensor, " M"]) -> tuple[Any, ...]:
        """The states of the sequences `index` in every member."""
        return tuple(member.select(own, index) for member, own in zip(self.members, state, strict=True))

    def reorder(self, state: tuple[Any, ...], index: Int[Tensor, " N"]) -> tuple[Any, ...]:
        """The states of the sequences `index`, each of the same source as the sequence it replaces."""
        return tuple(member.reorder(own, index) for member, own in zip(self.members, state, strict=True))


def mean_of(logits: Sequence[Float[Tensor, "*N V"]]) -> Float[Tensor, "*N V"]:
    """`log(1/M sum_m softmax(l_m))`; half precision is computed in float32."""
    working = torch.promote_types(logits[0].dtype, torch.float32)
    each = [one.log_softmax(-1, dtype=working) for one in logits]
    return torch.stack(each).logsumexp(0) - math.log(len(each))


def alignment_weights(
    model: TransductionModel | Ensemble, weights: Mapping[str, Tensor]
) -> Float[Tensor, "B H T S"]:
    """The recorded weights to compare with a gold alignment.

    For an ensemble, they are averaged over the heads of each member and then over members, leaving one head.
    """
    found = [weights[name] for name in alignment_names(model)]
    if not isinstance(model, Ensemble):
        return found[0]
    return torch.stack([each.mean(1, keepdim=True) for each in found]).mean(0)


def alignment_names(model: TransductionModel | Ensemble) -> list[str]:
    """The names of the attentions whose weights `alignment_weights` uses; empty if there are none."""
    if not isinstance(model, Ensemble):
        return [] if model.alignment is None else [model.alignment]
    members = enumerate(model.members, start=1)
    return [f"member {number}.{one.alignment}" for number, one in members if one.alignment is not None]
