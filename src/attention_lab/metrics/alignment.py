"""How well attention agrees with a gold alignment, for each head."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.metrics.fractions import Counts, Fraction


def _checked(metric: Fraction, weights: Tensor, alignment: Tensor) -> Tensor:
    """The alignment as 64-bit numbers. Raises an error if it does not fit the weights."""
    metric.check_heads(weights)
    if not isinstance(alignment, Tensor) or alignment.dtype not in (torch.int64, torch.int32):
        given = alignment.dtype if isinstance(alignment, Tensor) else kind_of(alignment)
        raise TypeError(
            f"an alignment must be an integer tensor of source positions, -1 for none, not {given}"
        )
    batch, _, target, _ = weights.shape
    if (batch, target) != tuple(alignment.shape[:2]):
        raise ValueError(
            f"weights {tuple(weights.shape)} must be [batch, head, target, source] "
            f"for an alignment [batch, target], not {tuple(alignment.shape)}"
        )
    return alignment.long()


def _with_merged_gold(weights: Tensor, alignment: Tensor) -> tuple[Tensor, Tensor]:
    """Merge several gold positions of a step into the first one, which gets their total weight."""
    if alignment.dim() == 2:
        return weights, alignment
    source = weights.shape[-1]
    positions = alignment.masked_fill(alignment < 0, source)
    gold = F.one_hot(positions, source + 1)[..., :source].any(-2).unsqueeze(1)
    first = alignment[..., 0]
    mass = weights.masked_fill(~gold, 0.0).sum(-1, keepdim=True)
    where = first.clamp(min=0)[:, None, :, None].expand_as(mass)
    return weights.masked_fill(gold, 0.0).scatter_add(-1, where, mass), first


class AlignmentAccuracy(Counts):
    """Fraction of the aligned target steps whose largest weight is at a gold source position.

    If several weights are equally large, the first position counts.

    Args:
        heads: number of heads, each with its own value.
    """

    higher_is_better = True

    def update(self, weights: Float[Tensor, "B H T S"], alignment: Int[Tensor, "B T *G"]) -> None:
        """Count a batch.

        Args:
            weights: attention of each target step over the source.
            alignment: gold source position of each target step, -1 if it has none; or up to G positions
                that are all correct, padded with -1.

        Raises:
            TypeError: the weights are not a tensor, or the alignment is not an integer tensor.
            ValueError: the shapes or the number of heads do not match.
        """
        alignment = _checked(self, weights, alignment)
        gold = alignment.view(*alignment.shape[:2], -1)
        self.numerator += (weights.argmax(-1, keepdim=True) == gold.unsqueeze(1)).any(-1).sum((0, 2))
        self.denominator += (gold >= 0).any(-1).sum()


class AlignmentMass(Fraction):
    """Mean total weight on the gold source positions, over the aligned target steps.

    Args:
        heads: number of heads, each with its own value.
    """

    higher_is_better = True

    def update(self, weights: Float[Tensor, "B H T S"], alignment: Int[Tensor, "B T *G"]) -> None:
        """Count a batch.

        Args:
            weights: see `AlignmentAccuracy.update`.
            alignment: see `AlignmentAccuracy.update`.

        Raises:
            TypeError: the weights are not a tensor, or the alignment is not an integer tensor.
            ValueError: the shapes or the number of heads do not match.
        """
        alignment = _checked(self, weights, alignment)
        weights, alignment = _with_merged_gold(weights, alignment)
        gold = alignment.unsqueeze(1).expand(weights.shape[:-1])
        mass = weights.gather(-1, gold.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        self.numerator += mass.float().masked_fill(gold < 0, 0.0).sum((0, 2))
        self.denominator += (alignment >= 0).sum()


class AlignmentErrorRate(Counts):
    """Alignment error rate (AER) of the links that attention makes.

        AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|),   A = {(t, j) : a_tj >= threshold}

    with sure links S and possible links P, which include S (Och & Ney 2003, "A systematic comparison of
    various statistical alignment models"). For P = S it is 1 - F1.

    The threshold is one half because a row is a distribution: a step links the one source position that
    outweighs all others together, or none if attention is spread out, for any length of the source. If the
    largest weight always made a link, as in `AlignmentAccuracy`, even a uniform row would have one.

    Target steps without any gold link, such as the end of the sequence, are ignored.

    Args:
        heads: number of heads, each with its own value.
        threshold: the smallest weight that makes a link, above 0.

    Raises:
        ValueError: the threshold is not above 0.
    """

    higher_is_better = False

    def __init__(self, heads: int = 1, threshold: float = 0.5) -> None:
        super().__init__(heads)
        if not threshold > 0:
            raise ValueError(f"the threshold of a link must be above 0, not {threshold}")
        self.threshold = threshold

    def update(
        self,
        weights: Float[Tensor, "B H T S"],
        alignment: Int[Tensor, "B T *G"],
        possible: Bool[Tensor, "B T S"] | None = None,
    ) -> None:
        """Count a batch.

        Args:
            weights: attention of each target step over the source.
            alignment: the sure source position of each target step, -1 if it has none; or up to G positions,
                which count as one with their total weight, padded with -1.
            possible: further links that do not count as errors; none by default.

        Raises:
            TypeError: the weights are not a tensor, or the alignment is not an integer tensor.
            ValueError: the shapes or the number of heads do not match.
        """
        alignment = _checked(self, weights, alignment)
        weights, alignment = _with_merged_gold(weights, alignment)
        source = weights.shape[-1]
        # -1 becomes a class beyond the source, which is dropped
        positions = alignment.masked_fill(alignment < 0, source)
        sure = F.one_hot(positions, source + 1)[..., :source].bool().unsqueeze(1)
        allowed = sure if possible is None else sure | possible.unsqueeze(1)
        links = (weights >= self.threshold) & allowed.any(-1, keepdim=True)
        made, wanted = links.sum((0, 2, 3)), sure.sum()
        self.numerator += made + wanted - (links & sure).sum((0, 2, 3)) - (links & allowed).sum((0, 2, 3))
        self.denominator += made + wanted
