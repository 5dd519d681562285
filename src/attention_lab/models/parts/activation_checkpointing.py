"""Activation checkpointing: recompute a layer in the backward pass (1604.06174)."""

from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from attention_lab.attention import Attention


def run_layer(layer: nn.Module, attention: Attention, on: bool, *arguments: Any, **options: Any) -> Any:
    """`layer(...)`; if `on`, training stores only its input and recomputes the rest in the backward pass.

    Disabled while `attention` is recorded, or its weights would be recorded twice.
    """
    if on and layer.training and attention.record is None:
        return checkpoint(layer, *arguments, use_reentrant=False, **options)
    return layer(*arguments, **options)
