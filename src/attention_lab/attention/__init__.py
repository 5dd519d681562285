"""The mathematics of attention: scores, masks, normalisers, pooling, and the formula that combines them.

`Attention` is that formula, `Mechanism` is a choice of its parts, `MultiHead` is the multi-head layer of
1706.03762, and `recording` records the weights of any model. This package imports only torch and jaxtyping.
"""

from attention_lab.attention.attention import Attention, Mechanism
from attention_lab.attention.fast.dropout import Dropout
from attention_lab.attention.fast.packed import Packing
from attention_lab.attention.masks import adjacency_mask, band_mask, causal_mask, leave_out_mask, lengths_mask
from attention_lab.attention.memory import Memory
from attention_lab.attention.multihead import MultiHead
from attention_lab.attention.normalizers import (
    Entmax15,
    Normalizer,
    Sigmoid,
    SinkSoftmax,
    Softmax,
    Sparsemax,
    masked_softmax,
)
from attention_lab.attention.pooling import Exact, Gumbel, Hard, Monotonic, Soft, drawing
from attention_lab.attention.recording import Recording, recording
from attention_lab.attention.replacing import replace_attention
from attention_lab.attention.scores import (
    Additive,
    Boxcar,
    Concat,
    Constant,
    Cosine,
    Dot,
    Epanechnikov,
    Gaussian,
    General,
    Kernel,
    Laplacian,
    Linear,
    Location,
    QueryFree,
    ScaledDot,
    Score,
)
from attention_lab.attention.torch_multihead import MultiheadAttention
from attention_lab.attention.windows import Band, Global, LocalP, Window

__all__ = [
    "Additive",
    "Attention",
    "Band",
    "Boxcar",
    "Concat",
    "Constant",
    "Cosine",
    "Dot",
    "Dropout",
    "Entmax15",
    "Epanechnikov",
    "Exact",
    "Gaussian",
    "General",
    "Global",
    "Gumbel",
    "Hard",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocalP",
    "Location",
    "Mechanism",
    "Memory",
    "Monotonic",
    "MultiHead",
    "MultiheadAttention",
    "Normalizer",
    "Packing",
    "QueryFree",
    "Recording",
    "ScaledDot",
    "Score",
    "Sigmoid",
    "SinkSoftmax",
    "Soft",
    "Softmax",
    "Sparsemax",
    "Window",
    "adjacency_mask",
    "band_mask",
    "causal_mask",
    "drawing",
    "leave_out_mask",
    "lengths_mask",
    "masked_softmax",
    "recording",
    "replace_attention",
]
