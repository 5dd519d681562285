"""Measures of outputs (error rates) and of attention (alignment, entropy, monotonicity), as torchmetrics."""

from attention_lab.metrics.alignment import AlignmentAccuracy, AlignmentErrorRate, AlignmentMass
from attention_lab.metrics.entropy import AttentionEntropy, attention_entropy
from attention_lab.metrics.error_rates import SequenceErrorRate, TokenErrorRate, edit_distance
from attention_lab.metrics.measures import AlignmentMeasures
from attention_lab.metrics.monotonicity import Monotonicity, expected_positions, monotonicity

__all__ = [
    "AlignmentAccuracy",
    "AlignmentErrorRate",
    "AlignmentMass",
    "AlignmentMeasures",
    "AttentionEntropy",
    "Monotonicity",
    "SequenceErrorRate",
    "TokenErrorRate",
    "attention_entropy",
    "edit_distance",
    "expected_positions",
    "monotonicity",
]
