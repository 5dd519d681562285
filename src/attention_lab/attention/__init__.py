"""The mathematics of attention: scores, masks, normalisers, pooling, and the one line that joins them.

Imports torch only. `Attention` is the line, `Mechanism` a choice of its parts, `MultiHead` the
shell of 1706.03762, `recording` the way to see weights.
"""

from attention_lab.attention.attention import Attention, Mechanism, Memory
from attention_lab.attention.kernels import Boxcar, Constant, Epanechnikov, Gaussian, Kernel, Laplacian
from attention_lab.attention.masks import band_mask, causal_mask, leave_out_mask, lengths_mask
from attention_lab.attention.multihead import MultiHead
from attention_lab.attention.normalizers import Normalizer, Softmax, masked_softmax
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recording import Recording, recording
from attention_lab.attention.scores import Additive, Dot, General, ScaledDot, Score

__all__ = [
    "Additive",
    "Attention",
    "Boxcar",
    "Constant",
    "Dot",
    "Epanechnikov",
    "Gaussian",
    "General",
    "Kernel",
    "Laplacian",
    "Mechanism",
    "Memory",
    "MultiHead",
    "Normalizer",
    "Recording",
    "ScaledDot",
    "Score",
    "Soft",
    "Softmax",
    "band_mask",
    "causal_mask",
    "leave_out_mask",
    "lengths_mask",
    "masked_softmax",
    "recording",
]
