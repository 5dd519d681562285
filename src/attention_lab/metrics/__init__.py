"""Measures of outputs (error rates) and of attention itself (alignment, entropy), as torchmetrics."""

from attention_lab.metrics.alignment import AlignmentAccuracy, AlignmentMass
from attention_lab.metrics.entropy import AttentionEntropy, attention_entropy
from attention_lab.metrics.error_rates import SequenceErrorRate, TokenErrorRate, edit_distance

__all__ = [
    "AlignmentAccuracy",
    "AlignmentMass",
    "AttentionEntropy",
    "SequenceErrorRate",
    "TokenErrorRate",
    "attention_entropy",
    "edit_distance",
]
