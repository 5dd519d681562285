"""The positions of keys in a sliding-window cache, when a transformers model generates."""

from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention.recording.site import first_argument

_NAMES = ("cache", "past_key_values")
"""What transformers calls the cache: from version 5.24 on, and before."""


def keys_seen(module: nn.Module, variables: Mapping[str, Any]) -> int:
    """The number of keys so far, if the cache keeps only the most recent ones; 0 if it keeps all.

    Args:
        module: the attention that is being called.
        variables: the local variables of its method.
    """
    number = getattr(module, "layer_idx", None)
    found = (getattr(variables.get(name), "layers", None) for name in _NAMES)
    layers = next((one for one in found if isinstance(one, list)), [])
    if not isinstance(number, int) or not 0 <= number < len(layers):
        return 0
    layer = layers[number]
    if not getattr(layer, "is_sliding", False):
        return 0
    length = getattr(layer, "cumulative_length_int", getattr(layer, "cumulative_length", 0))
    return length if isinstance(length, int) else 0


def keys_seen_by_caller(frame: FrameType | None) -> int:
    """`keys_seen` of the attention of a transformers model that calls one of ours; 0 if there is none.

    Args:
        frame: where the search starts; it proceeds outwards.
    """
    while frame is not None:
        module = first_argument(frame)
        if isinstance(module, nn.Module) and (seen := keys_seen(module, frame.f_locals)):
            return seen
        frame = frame.f_back
    return 0


def at_positions(x: Tensor, seen: int) -> Tensor:
    """`[B, H, Q, K]` with its columns moved to the last of the `seen` positions; zero before them."""
    return F.pad(x, (seen - x.shape[-1], 0)) if seen > x.shape[-1] else x
