"""Callbacks that show how training progresses, and save it so that it can be resumed."""

from attention_lab.callbacks.attention_maps import AttentionMaps
from attention_lab.callbacks.averaging import AveragedWeights
from attention_lab.callbacks.best_checkpoint import BestCheckpoint
from attention_lab.callbacks.embeddings import Embeddings
from attention_lab.callbacks.fitted_curve import FittedCurve
from attention_lab.callbacks.progress import Progress
from attention_lab.callbacks.pruning import Pruning
from attention_lab.callbacks.resumable import Resumable

__all__ = [
    "AttentionMaps",
    "AveragedWeights",
    "BestCheckpoint",
    "Embeddings",
    "FittedCurve",
    "Progress",
    "Pruning",
    "Resumable",
]
