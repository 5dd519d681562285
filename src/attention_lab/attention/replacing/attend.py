"""The attention function that transformers models call: the mechanism of the module that attends."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.argument_checks import kind_of
from attention_lab.attention.attention import Attention
from attention_lab.attention.fast.grouped import grouped_attention, remember_groups, with_all_heads
from attention_lab.attention.masks import causal_mask, mask_and_bias
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recording.weights import LOWEST
from attention_lab.attention.replacing.calls import PART
from attention_lab.attention.scores import ScaledDot, Score
from attention_lab.attention.torch_state import has_values
from attention_lab.attention.windows import Global, LocalP

_OWN_PARTS = {
    "softcap": "a soft cap of its scores",
    "s_aux": "sinks",
    "sinks": "sinks",
    "indices": "its own selection of keys",
    "block_indices": "its own selection of keys",
}
"""Options of the interface that belong to a model's own formula, and how errors describe them."""


def reason_against(module: nn.Module, options: dict[str, Any]) -> str | None:
    """Why a mechanism cannot replace the attention of a module that calls with these options, or None."""
    part = next((part for name, part in _OWN_PARTS.items() if options.get(name) is not None), None)
    return None if part is None else f"{type(module).__name__} has {part}, which a mechanism would drop"


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | Tensor | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """The context `[B, Q, H, dv]`, from the mechanism in a module or, if there is none, torch's kernel.

    Args:
        module: the module that attends.
        query: `[B, H, Q, d]`.
        key: `[B, G, K, d]`, each for H / G query heads.
        value: `[B, G, K, dv]`.
        attention_mask: boolean, True = attend, or numbers that are added to the scores; None to attend to
            every key or, if there are several queries and the attention is causal, to earlier ones.
        dropout: probability with which a weight is dropped.
        scaling: the factor on inner products, for `ScaledDot`.
        is_causal: by default, what the module says.
        position_bias: added to the scores.
        options: whatever other functions need.

    Returns:
        The context, and with `output_attentions`, as an option or in the module's configuration, the weights
        `[B, H, Q, K]` before dropout, else None.

    Raises:
        ValueError: hard pooling with dropout, a score or window that would count from an unknown position,
            or a part of the model's own formula that a mechanism would drop.
        TypeError: another object stands in the mechanism's place and hides it.
    """
    reason = reason_against(module, options)
    if reason is not None:
        raise ValueError(reason)
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is None and causal:
        attention_mask = _mask_of_last_queries(module, query, key)
    attention, context = mechanism_in(module), None
    configured = getattr(getattr(module, "config", None), "output_attentions", False)
    with_weights = options.pop("output_attentions", configured)
    if attention is None:
        options |= {"scaling": scaling, "is_causal": is_causal, "position_bias": position_bias}
        context = _by_torch(module, query, key, value, attention_mask, dropout, options)
        if not with_weights:
            return context, None
        attention = Attention(ScaledDot(query.shape[-1], key.shape[-1]))  # for the weights alone
    earlier_only = causal and attention_mask is None and query.shape[2] > 1
    if earlier_only:
        key, value, position_bias = _without_empty_places(query, key, value, position_bias)
    mask, bias = visible_and_bias(attention_mask, position_bias)
    _check_window(attention, query, key, mask, options.get("sliding_window"), causal=causal)
    key = with_scale_of_model(attention, key, scaling)
    memory = remember_groups(attention, key, value, mask, query.shape[1], causal=earlier_only)
    offset = key.shape[2] - query.shape[2] if causal else 0
    if context is None:
        set_dropout(attention, dropout)
        context = grouped_attention(attention, query, memory, offset=offset, bias=bias)
        context = context.transpose(1, 2).contiguous()
    weights = None
    if with_weights:
        memory = with_all_heads(memory, query.shape[1])
        weights = attention.weights(query, memory, offset=offset, bias=bias)
    return context, weights


def _mask_of_last_queries(module: nn.Module, query: Tensor, key: Tensor) -> Tensor | None:
    """The causal mask of a layer that reuses another's keys, but has only the last queries; else None."""
    queries, keys = query.shape[2], key.shape[2]
    if not getattr(module, "is_kv_shared_layer", False) or keys <= queries:
        return None
    return causal_mask(queries, keys, key.device, offset=keys - queries)[None, None]


def _by_torch(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float,
    options: dict[str, Any],
) -> Tensor:
    """The context from torch's kernel, called as transformers does."""
    kernels: Any = sys.modules["transformers.integrations.sdpa_attention"]
    given = query, key, value, attention_mask, dropout
    context: Tensor = kernels.sdpa_attention_forward(module, *given, **options)[0]
    return context


def _without_empty_places(
    query: Tensor, key: Tensor, value: Tensor, position_bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Keys, values and columns of the bias, as many as queries: a static cache is empty beyond them."""
    queries = query.shape[2]
    if key.shape[2] <= queries:
        return key, value, position_bias
    position_bias = None if position_bias is None else position_bias[..., :queries]
    return key[:, :, :queries], value[:, :, :queries], position_bias


def mechanism_in(module: nn.Module) -> Attention | None:
    """The mechanism in a module, also inside a wrapper, or None.

    Wrappers, such as PEFT's for `modules_to_save`, forward attributes that they lack to the module in use.
    """
    part = getattr(module, PART, None)
    if part is None:
        return None
    wrapped = not isinstance(part, Attention)
    inner = getattr(getattr(part, "remember", None), "__self__", None) if wrapped else part
    if not isinstance(inner, Attention):
        raise TypeError(
            f"the {PART} of {type(module).__name__} is {kind_of(part)}, which hides the attention in it"
        )
    found = inner.unwrapped()
    if wrapped and found is not inner:
        raise TypeError(
            f"the {PART} of {type(module).__name__} is wrapped, and so is its score, which PEFT cannot load "
            f"again: leave {PART!r} out of modules_to_save, as the score is saved already"
        )
    return found


def visible_and_bias(mask: Tensor | None, bias: Tensor | None = None) -> tuple[Tensor | None, Tensor | None]:
    """The boolean mask, and the bias including what an additive mask adds to visible scores."""
    if mask is None or mask.dtype == torch.bool:
        return mask, bias
    mask, added = mask_and_bias(mask, LOWEST)
    return mask, added if bias is None else bias if added is None else bias + added


def _check_window(
    attention: Attention,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    sliding_window: int | None,
    *,
    causal: bool,
) -> None:
    """Reject calls in which the score or the window would count from an unknown position."""
    queries, keys = query.shape[2], key.shape[2]
    slides = sliding_window is not None
    moves = sliding_window is not None and queries < keys >= sliding_window
    if attention.score.depends_on_position:
        check_first_key(attention.score, mask, moves=moves, slides=slides)
    if isinstance(attention.window, LocalP):
        check_first_key(attention.window, mask, moves=moves)
    elif not isinstance(attention.window, Global):
        _check_positions(attention, queries, keys, mask, causal=causal)


def _check_positions(
    attention: Attention, queries: int, keys: int, mask: Tensor | None, causal: bool
) -> None:
    """Reject calls in which a window would need the positions of queries, but they are unknown."""
    if queries == keys:
        return
    window = type(attention.window).__name__
    if not causal and queries == 1:
        raise ValueError(
            f"{window} needs the position of the query, which is unknown in attention to a source: replace "
            "only the other attentions, by their names"
        )
    if causal and mask is not None and has_values(mask) and not bool(mask[..., -1].any()):
        raise ValueError(f"{window} needs a cache without empty places: leave cache_implementation out")


def check_first_key(
    part: Score | LocalP, mask: Tensor | None, *, moves: bool = False, slides: bool = False
) -> None:
    """Reject calls whose first key is not the first of its sequence, from which a part counts.

    Args:
        part: the score or window that counts.
        mask: `[..., Q, K]`, or None.
        moves: whether the keys are only the last ones of their sequence.
        slides: whether the mask may slide, and so hide the first key from later queries.
    """
    hidden = False
    if mask is not None and has_values(mask):
        some, first = mask.any(-1), mask[..., 0]
        if slides:
            some, first = some.any(-1), first.any(-1)
        hidden = bool((some & ~first).any())
    if hidden or moves:
        moving = "sliding windows" if isinstance(part, LocalP) else "caches that slide"
        raise ValueError(
            f"{type(part).__name__} counts positions from the first key, which this attention hides: it "
            f"works without padding on the left, packed sequences and {moving}"
        )


def set_dropout(attention: Attention, dropout: float) -> None:
    """Drop weights with the probability that the model chooses in each call."""
    if dropout and not isinstance(attention.pooling, Soft):
        raise ValueError(
            "the model drops attention weights, which works only with soft pooling, not with "
            f"{type(attention.pooling).__name__}: set its attention dropout to 0"
        )
    if attention.dropout.p != dropout:
        attention.dropout.p = dropout


def with_scale_of_model(attention: Attention, key: Tensor, scaling: float | Tensor | None) -> Tensor:
    """Keys rescaled to give dot products the model's own scale; not the queries, which a window sees."""
    if scaling is None or type(attention.score) is not ScaledDot:
        return key
    factor = scaling * key.shape[-1] ** 0.5
    return key if not isinstance(factor, Tensor) and abs(factor - 1) < 1e-6 else key * factor
