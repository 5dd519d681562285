"""Put mechanisms into transformers models through the library's attention interface.

Two functions are registered there: `attend` computes a context with the mechanism of the module that calls,
and `_probe` only notes which modules call. A model's configuration chooses between such functions by name.
"""

import inspect
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from attention_lab.attention.attention import Attention
from attention_lab.attention.recording.libraries.hugging_face import TRANSFORMERS
from attention_lab.attention.replacing.attend import attend, reason_against
from attention_lab.attention.replacing.calls import Calls, FoundCall, without_values

_NAME = "attention_lab"
_PROBE = "attention_lab_probe"
_ADDED = "_added"
"""The ending of the names for models whose masks are added to the scores."""
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
"""The name in the code of modules that call the attention interface."""


class _Registered:
    """Part of each new attention: registers the functions where a model is unpickled, in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _registered, ()


_lock = threading.Lock()
_found: dict[nn.Module, FoundCall] = {}  # while a model runs with the probe


@contextmanager
def noted_interface_calls(model: nn.Module) -> Iterator[Calls]:
    """Note the calls of the attention interface by a model that runs inside; the model stays as it was."""
    models = outermost_models(model)
    before = [(config, config._attn_implementation_internal) for config in _configs(models)]
    calls = Calls({}, [])
    with _lock:
        try:
            _choose(models, _PROBE)
            yield calls
            calls.last.update(_found)
            calls.missed.extend(one for one in _callers(models) if one not in _found)
        finally:
            _found.clear()
            for config, implementation in before:
                config._attn_implementation_internal = implementation


def use_mechanisms(model: nn.Module) -> None:
    """Let the attentions of the transformers models in a model use their parts called `PART`."""
    _choose(outermost_models(model), _NAME)


def register_when_unpickled(attention: Attention) -> None:
    """Let an attention register the functions in a process that unpickles it."""
    attention.registered = _Registered()  # type: ignore[assignment]


def outermost_models(model: nn.Module) -> list[Any]:
    """The transformers models in a model, without those inside another one."""
    found = [one for one in model.modules() if isinstance(one, _kind())]
    inner = {part for one in found for part in one.modules() if part is not one}
    return [one for one in found if one not in inner]


def _kind() -> Any:
    """The base class of transformers models; `()`, which nothing is an instance of, without transformers."""
    return getattr(sys.modules.get(TRANSFORMERS), "PreTrainedModel", ())


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
    _register()
    _share_configs(models)
    # transformers would warn about models that cannot switch; these are then not found.
    logger = logging.getLogger(TRANSFORMERS)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        for part in _parts(models):  # older versions leave out parts with a copy of the configuration
            part.set_attn_implementation(name)
    finally:
        logger.setLevel(level)
    for part in _parts(models):
        if part.config._attn_implementation == name and not part._supports_sdpa:
            part.config._attn_implementation_internal = name + _ADDED  # other parts of it may add the masks


def _share_configs(models: list[Any]) -> None:
    """Let modules use the configuration of the model they are in, if theirs is an equal copy."""
    parts = _parts(models)
    known = {id(part.config) for part in parts}
    for part in parts:
        for module in part.modules():
            own = getattr(module, "config", part.config)
            if id(own) not in known and _equal(own, part.config):
                module.config = part.config


def _equal(config: Any, other: Any) -> bool:
    same_kind = type(config) is type(other) and config._attn_implementation == other._attn_implementation
    return same_kind and config.to_dict() == other.to_dict()


def _register() -> None:
    functions: Any = sys.modules[TRANSFORMERS]
    masks: Any = sys.modules["transformers.masking_utils"]
    for name, function in ((_NAME, attend), (_PROBE, _probe)):
        for end, mask in (("", masks.sdpa_mask), (_ADDED, masks.eager_mask)):  # sdpa: boolean, True = attend
            functions.AttentionInterface.register(name + end, function)
            masks.AttentionMaskInterface.register(name + end, mask)


def _registered() -> _Registered:
    if TRANSFORMERS in sys.modules:
        _register()
    return _Registered()


def _parts(models: list[Any]) -> list[Any]:
    """Transformers models, including those inside them."""
    return [part for one in models for part in one.modules() if isinstance(part, _kind())]


def _callers(models: list[Any]) -> list[nn.Module]:
    """The modules that would call the probe."""
    probed = [one for one in _parts(models) if one.config._attn_implementation.startswith(_PROBE)]
    codes = {
        module: getattr(inspect.unwrap(type(module).forward), "__code__", None)
        for one in probed
        for module in one.modules()
    }
    return [one for one, code in codes.items() if code is not None and _INTERFACE in code.co_names]


def _probe(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any
) -> tuple[Tensor, None]:
    """Note the call of a module; the context is zero."""
    _found[module] = FoundCall(without_values(query, module), key.shape[-1], reason_against(module, options))
    return value.new_zeros(len(query), query.shape[2], query.shape[1], value.shape[-1]), None
