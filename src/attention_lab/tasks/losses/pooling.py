"""Check that a model has the loss that its pooling needs."""

from torch import nn

from attention_lab.attention import Attention, Exact, Hard, Monotonic
from attention_lab.errors import LabError
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.parts.monotonic import MonotonicDecoder
from attention_lab.models.seq2seq import EncoderDecoder


def check_pooling(model: nn.Module) -> None:
    """Raise LabError if an attention has a pooling with a loss of its own, and the model lacks this loss.

    Without it, nothing would tell the scores which position to choose.
    """
    if isinstance(model, Ensemble):
        return  # its members were trained, and checked, one by one
    for name, attention in model.named_modules():
        if isinstance(attention, Attention) and not _has_loss(model, attention):
            raise LabError(
                f"pooling={type(attention.pooling).__name__.lower()} needs a loss for the position that "
                f"determines each output symbol, and {type(model).__name__} has none for {name}: choose "
                "pooling=soft or gumbel, or derive the model from attention_lab.models.EncoderDecoder"
            )


def _has_loss(model: nn.Module, attention: Attention) -> bool:
    pooling = attention.pooling
    if not isinstance(pooling, Hard | Exact | Monotonic):
        return True
    if not isinstance(model, EncoderDecoder) or attention is not model.decoder.attention:
        return False
    return not isinstance(pooling, Monotonic) or isinstance(model.decoder, MonotonicDecoder)
