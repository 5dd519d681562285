"""Which path computes the context, and why. All paths give the same result as the plain `pool(weigh(...))`.

The fast paths never hold the weights of all pairs. The first that applies is taken:

| path | does | needs |
|---|---|---|
| `slice` | only the keys near the queries, by any path | a band that reaches less than half of the keys |
| `band` | strips of keys in the fused kernel | a band, a softmax, no fall-off, a score with features |
| `strips` | strips of keys with the plain formula | a band, one of our normalisers |
| `linear` | sums over the keys | `exp(score)` an inner product, a plain softmax: see below |
| `fused` | all keys in the fused kernel | a softmax, or one with a sink, no fall-off, a score with features |

A score with features is an inner product: see `Score.features` and `Score.kernel_features`. Sums over the
keys allow no temperature, window, dropout or bias, only one mask for all queries, and a causal order only if
queries and keys are at the same positions. Compiled code has no `slice`. Hard pooling samples from the
weights, so it needs all of them. PyTorch's fused kernel has no forward-mode derivatives: while they are
computed, no path uses it. It is not used with a bias under `torch.func` either, where the bias may have no
gradient. A subclass of a part that overrides its formula takes no path that would bypass it: see `shortcuts`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from attention_lab.attention.fast.band import band_attention, by_strips, make_blocks
from attention_lab.attention.fast.dropout import Dropout
from attention_lab.attention.fast.fused import fused_attention
from attention_lab.attention.fast.linear import linear_attention
from attention_lab.attention.memory import Call, Memory
from attention_lab.attention.normalizers import Normalizer, scaled_scores
from attention_lab.attention.pooling import Soft
from attention_lab.attention.scores import Score
from attention_lab.attention.shortcuts import (
    computes_as,
    drops_single_weights,
    features_of,
    ignores_hidden_keys,
    kernel_features_of,
    scale_and_sink_of,
    scale_of,
    tensors_of,
)
from attention_lab.attention.torch_state import (
    exporting,
    in_forward_mode,
    in_torch_func,
    product_dtype,
    without_autocast,
)
from attention_lab.attention.windows import Band, Global, Span


@runtime_checkable
class Parts(Protocol):
    """The parts of an `Attention` other than the window, and the two steps of its plain formula."""

    if TYPE_CHECKING:  # from Python 3.12 on, isinstance does not see the submodules of a module
        score: Score
        normalizer: Normalizer
        pooling: nn.Module
        dropout: Dropout

    def weigh(self, query: Tensor, keys: Tensor, span: Span, bias: Tensor | None = None) -> Tensor:
        """Weights before dropout."""

    def pool(self, weights: Tensor, value: Tensor) -> Tensor:
        """Context, with dropout of the weights."""


class Path(NamedTuple):
    """A method that computes the context without holding the weights of all pairs.

    Attributes:
        name: as in the table above.
        context: computes the context `[..., Q, dv]`.
    """

    name: Literal["band", "strips", "slice", "linear", "fused"]
    context: Callable[[], Tensor]


def fast_path(parts: Parts, call: Call) -> Path | None:
    """The fastest exact path for a call; None if the weights of all pairs are needed."""
    if not computes_as(parts.pooling, Soft):
        return None
    if not drops_single_weights(parts.dropout):
        return None
    band = _usable_band(parts, call)
    path = None if band is None else _slice(parts, call, band) or _band_or_strips(parts, call, band)
    return path or _linear(parts, call) or _fused(parts, call)


def _slice(parts: Parts, call: Call, band: Band) -> Path | None:
    """Use only the keys that the band of some query reaches, if these are less than half of all keys."""
    if torch.compiler.is_compiling():
        return None
    query, memory, keys = call.query, call.memory, call.memory.keys.shape[-2]
    start = max(0, call.offset - band.width)
    stop = min(keys, call.offset + query.shape[-2] + (0 if memory.causal else band.width))
    if not 0 < 2 * (stop - start) < keys or not ignores_hidden_keys(parts.normalizer):
        return None
    near = Memory(
        memory.keys[..., start:stop, :],
        memory.value[..., start:stop, :],
        None if memory.mask is None else memory.mask[..., start:stop],
        memory.causal,
    )
    call = Call(call.window, query, near, call.offset - start)
    path = _band_or_strips(parts, call, band) or _fused(parts, call)
    if path is not None:
        return Path("slice", path.context)
    return Path("slice", lambda: parts.pool(parts.weigh(query, near.keys, call.span), near.value))


def _band_or_strips(parts: Parts, call: Call, band: Band) -> Path | None:
    """Use strips of keys, if these are faster: in the fused kernel, or with the plain formula."""
    keys, value, mask, causal = call.memory
    blocks = make_blocks(call.query.shape[-2], keys.shape[-2], band.width, causal=causal, offset=call.offset)
    if blocks is None:
        return None
    factor = band.factor(blocks.distances(call.query.device), call.query.dtype)
    scale = scale_of(parts.normalizer)
    # The kernel normalises and pools in one step, so no factor can be applied in between.
    if scale is not None and factor is None and not in_forward_mode():
        features = features_of(parts.score, call.query, keys, mask)
        if features is not None:
            (query, key), scale = _scaled(features, scale)
            dropout = _dropout_of(parts)
            fused = partial(band_attention, scale=scale, dropout=dropout)
            return Path("band", partial(_in_one_dtype, parts, fused, query, key, value, mask, blocks))
    if not ignores_hidden_keys(parts.normalizer) or _adds_heads(parts, call):
        return None

    def attend(query: Tensor, keys: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return parts.pool(parts.weigh(query, keys, Span(mask, factor)), value)

    return Path("strips", partial(by_strips, attend, call.query, keys, value, mask, blocks))


def _adds_heads(parts: Parts, call: Call) -> bool:
    """Whether a part has parameters for each head although the tensors have no dimension for heads.

    In strips, these parameters would broadcast to the blocks.
    """
    rank = max(x.dim() for x in (call.query, call.memory.keys, call.memory.value))
    if parts.score.heads is not None and rank < 3:
        return True
    return any(x.dim() > rank for x in tensors_of(parts.normalizer))


def _usable_band(parts: Parts, call: Call) -> Band | None:
    """The band, if there is one and neither the scores nor the mask of a key depend on its neighbours.

    None in exported code: it must work for any sizes, but the sizes decide whether strips are faster.
    """
    if not computes_as(call.window, Band) or call.bias is not None or parts.score.depends_on_position:
        return None
    if exporting():
        return None
    mask, keys = call.memory.mask, call.memory.keys.shape[-2]
    return call.window if mask is None or mask.shape[-2:] == (1, keys) else None


def _linear(parts: Parts, call: Call) -> Path | None:
    """Use sums over the keys, in which no single weight can be changed, dropped or masked."""
    if type(parts.score).kernel_features is Score.kernel_features:  # the case for most scores
        return None
    query, memory = call.query, call.memory
    scale = scale_of(parts.normalizer)
    if isinstance(scale, Tensor) or scale != 1 or _dropout_of(parts) or call.bias is not None:
        return None
    if not computes_as(call.window, Global):
        return None
    features = kernel_features_of(parts.score, query, memory.keys)
    if features is None or (memory.mask is not None and memory.mask.shape[-2] != 1):
        return None
    if memory.causal and not _starts_together(call):
        return None
    return Path(
        "linear", partial(linear_attention, *features, memory.value, memory.mask, causal=memory.causal)
    )


def _fused(parts: Parts, call: Call) -> Path | None:
    """Use torch's fused kernel; causal order is a flag if there is no mask, bias, sink, window or offset."""
    memory = call.memory
    scale, sink = scale_and_sink_of(parts.normalizer)
    if scale is None or in_forward_mode():
        return None
    # With a sink, features must give the complete score: see `Score.features`.
    if sink is not None and type(parts.score).forward is not Score.forward:
        return None
    # The kernel fails for a bias that requires a gradient outside the transform.
    if call.bias is not None and in_torch_func():
        return None
    free = memory.mask is None and call.bias is None and sink is None
    mask: Tensor | None = None
    if memory.causal and free and computes_as(call.window, Global) and _starts_together(call):
        causal = True  # a constant: in compiled code, sizes give a symbol, which the kernel rejects
    else:
        causal = False
        if call.span.factor is not None:
            return None
        mask = call.span.mask
    features = features_of(parts.score, call.query, memory.keys, memory.mask)
    if features is None:
        return None
    bias = (
        scaled_scores(call.bias, scale) if isinstance(scale, Tensor) and call.bias is not None else call.bias
    )
    (query, key), scale = _scaled(features, scale)
    fused = partial(
        fused_attention, bias=bias, sink=sink, causal=causal, scale=scale, dropout=_dropout_of(parts)
    )
    return Path("fused", partial(_in_one_dtype, parts, fused, query, key, memory.value, mask))


def _in_one_dtype(
    parts: Parts, attend: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, *rest: Any
) -> Tensor:
    """Attend by a kernel, which takes a single dtype; the context has that of the values, as in `Soft`."""
    if parts.score.keeps_features and product_dtype(query) != query.dtype:
        with without_autocast(query):
            context = _in_one_dtype(parts, attend, query, key, value, *rest)
        return context.to(product_dtype(value))
    if query.dtype == key.dtype == value.dtype:
        return attend(query, key, value, *rest)
    given, wanted = product_dtype(query), product_dtype(value)
    if given == wanted or given != product_dtype(key):
        return attend(query, key, value, *rest)
    dtype = torch.promote_types(given, wanted)
    return attend(query.to(dtype), key.to(dtype), value.to(dtype), *rest).to(wanted)


def _scaled(features: tuple[Tensor, Tensor], scale: float | Tensor) -> tuple[tuple[Tensor, Tensor], float]:
    """Features and the factor on their inner product, as a number.

    The kernels take no tensor, so a learned factor multiplies the features of the queries.
    """
    if not isinstance(scale, Tensor):
        return features, scale
    query, key = features
    return ((query * scale).to(query.dtype), key), 1.0


def _starts_together(call: Call) -> bool:
    """Whether queries and keys are at the same positions."""
    # A plain bool: while a graph is exported, sizes are symbols.
    return bool(call.offset == 0 and call.query.shape[-2] == call.memory.keys.shape[-2])


def _dropout_of(parts: Parts) -> float:
    """The probability of dropping a weight: 0 in evaluation."""
    return parts.dropout.p if parts.dropout.training else 0.0
