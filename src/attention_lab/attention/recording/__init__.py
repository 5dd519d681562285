"""Recording of weights: run any model as usual, and get the weights of each of its attentions."""

from attention_lab.attention.recording.context_manager import recording
from attention_lab.attention.recording.results import Recording

__all__ = ["Recording", "recording"]
