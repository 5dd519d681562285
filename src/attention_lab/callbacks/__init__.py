"""What a run shows of itself while it trains: attention maps, fitted curves, sample outputs."""

from attention_lab.callbacks.attention_maps import AttentionMaps
from attention_lab.callbacks.fitted_curve import FittedCurve
from attention_lab.callbacks.progress import Progress

__all__ = ["AttentionMaps", "FittedCurve", "Progress"]
