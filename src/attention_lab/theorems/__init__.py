"""Theorems: claims of papers about attention, measured on our own modules.

Each theorem is a class whose options are those of its constructor; `run(seed)` measures and returns a
`Finding`: the claim, a table, figures, and whether the numbers support the claim.
"""

from attention_lab.theorems.convolution import ConvolutionEquivalence
from attention_lab.theorems.early_information import EarlyInformation
from attention_lab.theorems.finding import Figure, Finding, Theorem
from attention_lab.theorems.gradients import HardGradients
from attention_lab.theorems.graph import GraphEquivalence
from attention_lab.theorems.kernels import KernelEquivalence
from attention_lab.theorems.receptive_field import ReceptiveField
from attention_lab.theorems.recurrence import LinearRecurrence
from attention_lab.theorems.scaling import Scaling

__all__ = [
    "ConvolutionEquivalence",
    "EarlyInformation",
    "Figure",
    "Finding",
    "GraphEquivalence",
    "HardGradients",
    "KernelEquivalence",
    "LinearRecurrence",
    "ReceptiveField",
    "Scaling",
    "Theorem",
]
