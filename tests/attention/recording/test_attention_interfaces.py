"""The attention interface of transformers: flash kernels, and those of others."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, real
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask, sdpa_mask

from attention_lab.attention import Mechanism, ScaledDot, recording


def _opaque(weights: Tensor, value: Tensor) -> Tensor:
    """A kernel that nothing can look into."""
    return torch.from_numpy(weights.numpy() @ value.numpy())


def _flash(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """What a flash kernel computes: causal from the last key on, in a window, under a mask of the keys."""
    keys, queries = key.shape[2], query.shape[2]
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * options["scaling"]
    if options.get("softcap") is not None:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    ago = torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)
    visible = (ago >= 0) & (ago < (options.get("sliding_window") or keys))
    if attention_mask is not None:
        visible = visible & attention_mask[:, None, None, -keys:].bool()
    scores = scores.masked_fill(~visible, -torch.inf)
    if options.get("s_aux") is not None:
        sinks = options["s_aux"].view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1).nan_to_num()
    return _opaque(weights, value).transpose(1, 2), None


@contextmanager
def _registered(
    name: str, function: Callable[..., Any], mask: Callable[..., Any] = flash_attention_mask
) -> Iterator[None]:
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, mask)
    try:
        yield
    finally:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def _models(name: str, implementation: str) -> tuple[nn.Module, nn.Module]:
    model, eager = (ARCHITECTURES[name].build("eager", 0.0).eval() for _ in range(2))
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = implementation
    return model, eager


def _own(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> tuple[Tensor, None]:
    memory = module.own.remember(key, value, mask)
    return module.own(query, memory).transpose(1, 2), None


@pytest.mark.parametrize("chosen", [None, [-1]])
def test_our_own_attention_in_the_interface_hides_nothing(chosen: list[int] | None) -> None:
    """Warnings are errors."""
    with _registered("own", _own, sdpa_mask), torch.no_grad():
        model, eager = _models("BERT", "own")
        heads = [module for name, module in model.named_modules() if name.endswith("attention.self")]
        for module in heads:
            size = module.attention_head_size
            module.own = Mechanism(ScaledDot)(size, size, module.num_attention_heads)
        inputs = ARCHITECTURES["BERT"].inputs("padding")
        with recording(eager, queries=chosen) as expected:
            eager(**inputs)
        with recording(model, queries=chosen) as weights:
            model(**inputs)
    assert list(weights) == [f"{name}.own" for name in expected]
    for name, want in expected.items():
        assert torch.allclose(weights[f"{name}.own"], want, atol=1e-5)


@pytest.mark.parametrize("padding", ["none", "padding"])
@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma 2", "GPT-OSS"])
def test_flash_kernels_by_what_they_are_asked(name: str, padding: str) -> None:
    with _registered("flash_stub", _flash), torch.no_grad():
        model, eager = _models(name, "flash_stub")
        inputs = ARCHITECTURES[name].inputs(padding)
        with recording(eager) as expected:
            eager(**inputs)
        plain = model(**inputs)[0]
        with recording(model) as weights:
            assert torch.equal(model(**inputs)[0], plain)
    assert list(weights) == list(expected)
    queries = real(padding)
    for module, want in expected.items():
        found = weights[module].transpose(1, 2)[queries]
        assert torch.allclose(found, want.transpose(1, 2)[queries], atol=1e-5)
        mask = weights.mask(module).transpose(1, 2)[queries]
        assert torch.equal(mask, expected.mask(module).transpose(1, 2)[queries])


def test_the_kernels_of_others_are_named_once() -> None:
    with _registered("mine", _flash), torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, _ = _models("Llama", "mine")
        with recording(model) as weights:
            model(**ARCHITECTURES["Llama"].inputs("none"))
    assert not weights
    (message,) = [str(one.message) for one in caught if "recording" in str(one.message)]
    assert "'layers.0.self_attn' computes attention in the attention interface 'mine'" in message
    assert "attn_implementation='sdpa'" in message


@pytest.mark.slow
def test_a_compiled_model_is_named_and_its_interface_is_not() -> None:
    model = torch.compile(ARCHITECTURES["Llama"].build("sdpa", 0.0).eval(), backend="eager")
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught, recording(model) as weights:
        warnings.simplefilter("always")
        model(**ARCHITECTURES["Llama"].inputs("none"))
    torch.compiler.reset()
    assert not weights
    (message,) = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    assert message.startswith("recording: the model computes attention in a compiled graph")


def test_recordings_of_an_interface_may_end_in_any_order() -> None:
    with _registered("opaque", _flash):
        before = dict(vars(AttentionInterface))
        model = ARCHITECTURES["BERT"].build("opaque", 0.0).eval()
        inputs = torch.ones(1, 3, dtype=torch.long)
        first, second = recording(model), recording(model)
        one, two = first.__enter__(), second.__enter__()
        first.__exit__(None, None, None)
        with torch.no_grad(), pytest.warns(UserWarning, match="opaque"):
            model(inputs)
        assert not one and not two
        second.__exit__(None, None, None)
        assert dict(vars(AttentionInterface)) == before
