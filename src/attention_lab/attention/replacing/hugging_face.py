"""Mechanisms in models of transformers, through its attention interface.

Two functions are registered there: `attend` computes a context by the mechanism of the module that calls it,
and `_probe` only notes which modules call. A model's configuration chooses between such functions by name.
"""

import logging
import sys
import threading
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attention_lab.attention.attention import Attention, Mechanism
from attention_lab.attention.evaluation_mode import arguments_of, evaluation_mode
from attention_lab.attention.fast.transforms import has_values
from attention_lab.attention.masks import mask_and_bias
from attention_lab.attention.pooling import Soft
from attention_lab.attention.recording.weights import LOWEST
from attention_lab.attention.scores import ScaledDot
from attention_lab.attention.windows import Global, LocalP
from attention_lab.errors import first_line

PART = "mechanism"
"""The name of the new attention in its module."""
_NAME = "attention_lab"
_PROBE = "attention_lab_probe"
_HOME = "transformers.modeling_utils"
_OWN_PARTS = {"softcap": "a soft cap of its scores", "s_aux": "sinks", "sinks": "sinks"}
"""Options of the interface that are parts of a model's own formula, and what they are."""


class Call(NamedTuple):
    """A call of the attention interface.

    Attributes:
        query: the queries `[B, H, Q, d]`, without their values.
        key_size: the size of a key.
        own_part: a part of the model's own formula, which a mechanism would drop; None for none.
    """

    query: Tensor
    key_size: int
    own_part: str | None


_lock = threading.Lock()
_found: dict[nn.Module, Call] = {}  # while a model runs with the probe


def found_calls(model: nn.Module, inputs: Any) -> dict[nn.Module, Call]:
    """The last call of the attention interface by each module, as a model runs once; it stays as it was.

    Args:
        model: any module; none are found unless it contains a model of transformers.
        inputs: what the model is called with; None to call the models of transformers with `dummy_inputs`.

    Raises:
        ValueError: the model fails, or an attention has a soft cap or sinks.
    """
    models = _outermost_models(model)
    before = [(config, config._attn_implementation_internal) for config in _configs(models)]
    with _lock, evaluation_mode(model), torch.no_grad():
        try:
            _choose(models, _PROBE)
            if inputs is not None and models:
                _run(model, inputs, "these inputs")
            else:
                for one in models:
                    given = {name: x.to(one.device) for name, x in one.dummy_inputs.items()}
                    _run(one, given, "its dummy_inputs, so give inputs")
            found = dict(_found)
        finally:
            _found.clear()
            for config, implementation in before:
                config._attn_implementation_internal = implementation
    for module, call in found.items():
        if call.own_part is not None:
            raise ValueError(f"{type(module).__name__} has {call.own_part}, which a mechanism would drop")
    return found


def use_mechanisms(model: nn.Module) -> None:
    """Let the attentions of transformers in a model use their parts called `PART`."""
    _choose(_outermost_models(model), _NAME)


def new_attention(module: nn.Module, call: Call, mechanism: Mechanism) -> Attention:
    """An attention for a module, on the device and in the precision of its queries."""
    query = call.query
    attention = mechanism(query.shape[-1], call.key_size, query.shape[1])
    return attention.to(query.device, query.dtype).train(module.training)


def _outermost_models(model: nn.Module) -> list[Any]:
    """The models of transformers in a model, but none inside another one."""
    kind = getattr(sys.modules.get(_HOME), "PreTrainedModel", ())
    found = [one for one in model.modules() if isinstance(one, kind)]
    inner = {part for one in found for part in one.modules() if part is not one}
    return [one for one in found if one not in inner]


def _configs(models: list[Any]) -> list[Any]:
    """The configurations of models, and those inside them, which all name an attention function."""
    pending = [part.config for one in models for part in one.modules() if hasattr(part, "config")]
    found: dict[int, Any] = {}
    while pending:
        config = pending.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
            pending += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


def _choose(models: list[Any], name: str) -> None:
    """Let models use one of the functions of this module, which are registered first."""
    if not models:
        return
    functions: Any = sys.modules[_HOME]
    masks: Any = sys.modules["transformers.masking_utils"]
    for one, function in ((_NAME, attend), (_PROBE, _probe)):
        functions.AttentionInterface.register(one, function)
        masks.AttentionMaskInterface.register(one, masks.sdpa_mask)  # boolean, True = attend
    logger = logging.getLogger(_HOME)  # which warns of models that cannot change: they are not found
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        for model in models:
            model.set_attn_implementation(name)
    finally:
        logger.setLevel(level)


def _run(model: nn.Module, inputs: Any, given: str) -> None:
    try:
        arguments, named = arguments_of(inputs)
        model(*arguments, **named)
    except Exception as error:
        raise ValueError(f"{type(model).__name__} fails with {given}: {first_line(error)}") from error


def _probe(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any
) -> tuple[Tensor, None]:
    """Note the call of a module; the context is zero."""
    own_part = next((part for name, part in _OWN_PARTS.items() if options.get(name) is not None), None)
    _found[module] = Call(query.new_empty(()).expand(query.shape), key.shape[-1], own_part)
    return value.new_zeros(len(query), query.shape[2], query.shape[1], value.shape[-1]), None


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
) -> tuple[Tensor, None]:
    """The context `[B, Q, H, dv]` by the mechanism in a module; by torch's kernel in one that has none.

    Args:
        module: the module that attends.
        query: `[B, H, Q, d]`.
        key: `[B, G, K, d]`, each for H / G heads of queries.
        value: `[B, G, K, dv]`.
        attention_mask: boolean, True = attend, or numbers that are added to the scores; None to attend to
            every key or, if there are several queries and the attention is causal, to earlier ones.
        dropout: probability with which a weight is dropped.
        scaling: the factor on inner products, for `ScaledDot`.
        is_causal: by default, what the module says.
        position_bias: added to the scores.
        options: whatever other functions need.

    Raises:
        ValueError: hard pooling with dropout, or a window whose queries are at unknown positions.
    """
    attention = getattr(module, PART, None)
    if not isinstance(attention, Attention):
        options |= {"scaling": scaling, "is_causal": is_causal, "position_bias": position_bias}
        kernels: Any = sys.modules["transformers.integrations.sdpa_attention"]
        given = query, key, value, attention_mask, dropout
        return kernels.sdpa_attention_forward(module, *given, **options)  # type: ignore[no-any-return]
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    queries = query.shape[2]
    earlier_only = bool(causal) and attention_mask is None and queries > 1
    if earlier_only and key.shape[2] > queries:  # the rest of a static cache is still empty
        key, value = key[:, :, :queries], value[:, :, :queries]
        position_bias = None if position_bias is None else position_bias[..., :queries]
    mask, bias = attention_mask, position_bias
    if mask is not None and mask.dtype != torch.bool:
        mask, added = mask_and_bias(mask, LOWEST)
        if added is not None:
            bias = added if bias is None else bias + added
    offset = key.shape[2] - queries if causal else 0
    _check_positions(attention, queries, key.shape[2], mask, causal=bool(causal))
    _set_dropout(attention, dropout)
    key = _with_scale_of_model(attention, key, scaling)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    memory = attention.remember(key, value, mask, causal=earlier_only)
    context = attention(query, memory, offset=offset, bias=bias)
    return context.transpose(1, 2).contiguous(), None


def _check_positions(
    attention: Attention, queries: int, keys: int, mask: Tensor | None, causal: bool
) -> None:
    """Reject calls in which a window would need the positions of queries, but they are unknown."""
    if isinstance(attention.window, Global | LocalP) or queries == keys:
        return
    window = type(attention.window).__name__
    if not causal and queries == 1:
        raise ValueError(
            f"{window} needs the position of the query, which is unknown in attention to a source: replace "
            "only the other attentions, by their names"
        )
    if causal and mask is not None and has_values(mask) and not bool(mask[..., -1].any()):
        raise ValueError(f"{window} needs a cache without empty places: leave cache_implementation out")


def _set_dropout(attention: Attention, dropout: float) -> None:
    """Drop weights with the probability that the model chooses in each call."""
    if dropout and not isinstance(attention.pooling, Soft):
        raise ValueError(
            "the model drops weights of its attention, but hard pooling samples from them: "
            "set its dropout of attention to 0"
        )
    if attention.dropout.p != dropout:
        attention.dropout.p = dropout


def _with_scale_of_model(attention: Attention, key: Tensor, scaling: float | Tensor | None) -> Tensor:
    """Keys whose scaled dot products have the scale of the model; a window sees the queries, not the keys."""
    if scaling is None or type(attention.score) is not ScaledDot:
        return key
    factor = scaling * key.shape[-1] ** 0.5
    return key if not isinstance(factor, Tensor) and abs(factor - 1) < 1e-6 else key * factor
