"""Scoring functions: log-kernels that a softmax turns into weights.

Every score is built from the sizes of its query and key, `Score(query_size, key_size, heads=None)`. With
`heads`, its parameters get a leading `[H, ...]` and it takes `[B, H, Q, d]`. The part that depends only
on the key is computed once, by `keys`. Scores that are an inner product of features declare it by defining
`features`; that is all it takes to use the fused path.
"""

from attention_lab.attention.scores.additive import Additive, Concat
from attention_lab.attention.scores.kernels import Boxcar, Constant, Epanechnikov, Gaussian, Kernel, Laplacian
from attention_lab.attention.scores.positional import Location, QueryFree
from attention_lab.attention.scores.products import Cosine, Dot, General, Linear, ScaledDot
from attention_lab.attention.scores.score import Score

__all__ = [
    "Additive",
    "Boxcar",
    "Concat",
    "Constant",
    "Cosine",
    "Dot",
    "Epanechnikov",
    "Gaussian",
    "General",
    "Kernel",
    "Laplacian",
    "Linear",
    "Location",
    "QueryFree",
    "ScaledDot",
    "Score",
]
