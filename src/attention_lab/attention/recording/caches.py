"""Where the keys of a sliding window begin when a transformers model generates with a cache."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


def keys_seen(module: nn.Module, variables: Mapping[str, Any]) -> int:
    """The number of keys so far, if the cache keeps only the most recent ones; 0 if it keeps all."""
    cache, number = variables.get("past_key_values"), getattr(module, "layer_idx", None)
    layers = getattr(cache, "layers", None)
    if not isinstance(layers, list) or not isinstance(number, int) or not 0 <= number < len(layers):
        return 0
    layer = layers[number]
    if not getattr(layer, "is_sliding", False):
        return 0
    found = getattr(layer, "cumulative_length_int", getattr(layer, "cumulative_length", 0))
    return found if isinstance(found, int) else 0


def at_positions(x: Tensor, seen: int) -> Tensor:
    """`[B, H, Q, K]` with its columns moved to the last of the `seen` positions; zero before them."""
    return F.pad(x, (seen - x.shape[-1], 0)) if seen > x.shape[-1] else x
