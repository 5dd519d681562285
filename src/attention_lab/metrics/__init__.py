"""Measures of outputs (error rates) and of attention (alignment, entropy, monotonicity)."""

from attention_lab.metrics.alignment import AlignmentAccuracy, AlignmentErrorRate, AlignmentMass
from attention_lab.metrics.alignment_measures import AlignmentMeasures
from attention_lab.metrics.bootstrap import Interval, bootstrap_interval
from attention_lab.metrics.confusions import Confusion, Edit, align, confusions
from attention_lab.metrics.entropy import attention_entropy
from attention_lab.metrics.error_rates import (
    Nearest,
    SequenceErrorRate,
    TokenErrorRate,
    edit_distance,
    nearest,
    sequence_lengths,
)
from attention_lab.metrics.monotonicity import Monotonicity, expected_positions, monotonicity

__all__ = [
    "AlignmentAccuracy",
    "AlignmentErrorRate",
    "AlignmentMass",
    "AlignmentMeasures",
    "Confusion",
    "Edit",
    "Interval",
    "Monotonicity",
    "Nearest",
    "SequenceErrorRate",
    "TokenErrorRate",
    "align",
    "attention_entropy",
    "bootstrap_interval",
    "confusions",
    "edit_distance",
    "expected_positions",
    "monotonicity",
    "nearest",
    "sequence_lengths",
]
