"""How well attention agrees with a gold alignment."""

from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.metrics.fractions import Counts, Fraction


def _check(weights: Tensor, alignment: Tensor) -> None:
    if weights.shape[:-1] != alignment.shape:
        raise ValueError(
            f"weights {tuple(weights.shape)} must be [batch, target, source] "
            f"for an alignment [batch, target], not {tuple(alignment.shape)}"
        )


class AlignmentAccuracy(Counts):
    """Fraction of the aligned target steps whose largest weight is at the gold source position.

    Among equal largest weights the first position counts.
    """

    higher_is_better = True

    def update(self, weights: Float[Tensor, "B T S"], alignment: Int[Tensor, "B T"]) -> None:
        """Count a batch.

        Args:
            weights: attention of each target step over the source.
            alignment: gold source position of each target step, -1 where there is none.

        Raises:
            ValueError: the shapes do not fit.
        """
        _check(weights, alignment)
        aligned = alignment >= 0
        self.numerator += (aligned & (weights.argmax(-1) == alignment)).sum()
        self.denominator += aligned.sum()


class AlignmentMass(Fraction):
    """Mean weight on the gold source position, over the aligned target steps."""

    higher_is_better = True

    def update(self, weights: Float[Tensor, "B T S"], alignment: Int[Tensor, "B T"]) -> None:
        """Count a batch.

        Args:
            weights: attention of each target step over the source.
            alignment: gold source position of each target step, -1 where there is none.

        Raises:
            ValueError: the shapes do not fit.
        """
        _check(weights, alignment)
        aligned = alignment >= 0
        gold = weights.gather(-1, alignment.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        self.numerator += gold.float().masked_fill(~aligned, 0.0).sum()
        self.denominator += aligned.sum()
