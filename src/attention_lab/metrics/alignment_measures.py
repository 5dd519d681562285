"""All measures of attention against a gold alignment at once."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_lab.metrics.alignment import AlignmentAccuracy, AlignmentErrorRate, AlignmentMass
from attention_lab.metrics.fractions import Fraction
from attention_lab.metrics.monotonicity import Monotonicity

MEASURES: dict[str, type[AlignmentAccuracy | AlignmentErrorRate | AlignmentMass]] = {
    "alignment_accuracy": AlignmentAccuracy,
    "alignment_error_rate": AlignmentErrorRate,
    "alignment_mass": AlignmentMass,
}


class AlignmentMeasures(nn.Module):
    """`alignment_accuracy`, `alignment_error_rate`, `alignment_mass` and `monotonicity` of an evaluation.

    Each is measured on the weights averaged over heads and, if there are several heads, on each head:
    `alignment_accuracy/head_1` and so on. Only target steps with a gold source count.
    """

    def __init__(self) -> None:
        super().__init__()
        # Filled by the first batch, which determines the number of heads.
        self.metrics = nn.ModuleDict()

    def update(self, weights: Float[Tensor, "B H T S"], alignment: Int[Tensor, "B T *G"]) -> None:
        """Count a batch.

        Args:
            weights: attention of each target step over the source.
            alignment: gold source position of each target step, or several of them, -1 if it has none.

        Raises:
            ValueError: the shapes do not fit, or the number of heads differs from earlier batches.
        """
        if weights.shape[1] > 1:
            weights = torch.cat([weights.mean(1, keepdim=True), weights], 1)
        for name, kind in MEASURES.items():
            self._metric(name, kind, weights).update(weights, alignment)
        aligned = (alignment >= 0).view(*alignment.shape[:2], -1).any(-1)
        self._metric("monotonicity", Monotonicity, weights).update(weights, aligned)

    def take(self) -> dict[str, Tensor]:
        """The values by name, over all ranks; empty if nothing was counted. Resets the counts."""
        found = {}
        for name, metric in self.metrics.items():
            assert isinstance(metric, Fraction)
            overall, *heads = metric.compute().reshape(-1)
            found[name] = overall
            found |= {f"{name}/head_{number}": value for number, value in enumerate(heads, start=1)}
        self.metrics.clear()
        return found

    def _metric(self, name: str, kind: type[Fraction], weights: Tensor) -> Fraction:
        if name not in self.metrics:
            self.metrics[name] = kind(weights.shape[1]).to(weights.device)
        metric = self.metrics[name]
        assert isinstance(metric, Fraction)
        return metric
