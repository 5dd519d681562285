"""What a run shows of itself while it trains: attention maps, fitted curves, sample outputs."""

from attention_lab.callbacks.attention_maps import AttentionMaps
from attention_lab.callbacks.fitted_curve import FittedCurve
from attention_lab.callbacks.progress import Progress
from attention_lab.callbacks.tensorboard import RunLogger

__all__ = ["AttentionMaps", "FittedCurve", "Progress", "RunLogger"]
