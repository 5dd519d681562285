"""The function that models of transformers call: masks, positions and what it leaves as it was."""

import copy
import logging
import pickle
from typing import Any

import pytest
import torch
import transformers
from architectures import ARCHITECTURES, SHARED, SMALL, WORDS, strong
from many import build, inputs_of
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from attention_lab import recording, replace_attention
from attention_lab.attention import Additive, Attention, Mechanism, ScaledDot
from attention_lab.attention.fast import grouped
from attention_lab.attention.replacing.attend import attend

SAME = Mechanism(ScaledDot)


def _llama() -> Any:
    return strong(transformers.LlamaModel._from_config(transformers.LlamaConfig(**SMALL, **WORDS, **SHARED)))


@pytest.mark.parametrize("bias", [False, True])
def test_a_mask_of_four_dimensions_is_added_to_the_scores(bias: bool) -> None:
    """Its lowest numbers hide a key: a query that sees none gets zeros, and the others a bias."""
    model = _llama().eval()
    tokens = torch.randint(3, 60, (2, 6))
    seen = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    seen[1, :, :, :2] = False
    mask = torch.randn(2, 1, 6, 6) if bias else torch.zeros(2, 1, 6, 6)
    mask = mask.masked_fill(~seen, torch.finfo(mask.dtype).min)
    with torch.no_grad():
        expected = model(tokens, attention_mask=mask)[0]
        replace_attention(model, SAME)
        with recording(model) as weights:
            found = model(tokens, attention_mask=mask)[0]
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[1, 2:], expected[1, 2:], atol=1e-5, rtol=1e-4)
    for one in weights.values():
        assert not one[1, :, :2].any() and not one[:, :, ~seen[0, 0]].any()


class _Module(nn.Module):
    """A module of transformers that attends."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.is_causal = causal
        self.mechanism = Attention(ScaledDot(4, 4))


@pytest.mark.parametrize("module_says", [False, True])
@pytest.mark.parametrize("call_says", [None, False, True])
def test_a_call_may_say_that_it_is_causal(module_says: bool, call_says: bool | None) -> None:
    query, key, value = torch.randn(3, 2, 1, 5, 4)
    context, _ = attend(_Module(module_says), query, key, value, None, is_causal=call_says)
    causal = module_says if call_says is None else call_says
    expected = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    torch.testing.assert_close(context, expected.transpose(1, 2))


def test_a_bias_of_positions_and_one_in_the_mask_are_both_added() -> None:
    query, key, value = torch.randn(3, 2, 1, 5, 4)
    mask, positions = torch.randn(2, 2, 1, 5, 5)
    for added in (mask, torch.zeros(2, 1, 5, 5)):
        context, _ = attend(_Module(False), query, key, value, added, position_bias=positions)
        expected = nn.functional.scaled_dot_product_attention(query, key, value, added + positions)
        torch.testing.assert_close(context, expected.transpose(1, 2))


@pytest.mark.parametrize("padded", [False, True])
def test_a_step_of_generating_copies_no_keys_for_the_heads_that_share_them(
    padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _Module(True)
    query, key, value = torch.randn(2, 8, 1, 4), *torch.randn(2, 2, 2, 7, 4)
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[0, ..., :3] = not padded
    shared = key.repeat_interleave(4, 1), value.repeat_interleave(4, 1)
    expected = nn.functional.scaled_dot_product_attention(query, *shared, mask).transpose(1, 2)
    with recording(module) as weights:
        recorded, _ = attend(module, query, key, value, mask)
    assert weights["mechanism"].shape == (2, 8, 1, 7)
    monkeypatch.setattr(grouped, "with_heads", None)
    context, _ = attend(module, query, key, value, mask)
    assert torch.equal(context, recorded)
    torch.testing.assert_close(context, expected)


@pytest.mark.parametrize("heads_of_mask", [1, 8])
def test_several_queries_of_heads_that_share_keys(heads_of_mask: int) -> None:
    query, key, value = torch.randn(2, 8, 5, 4), *torch.randn(2, 2, 2, 7, 4)
    mask = torch.rand(2, heads_of_mask, 5, 7) < 0.8
    mask[..., 0] = True
    shared = key.repeat_interleave(4, 1), value.repeat_interleave(4, 1)
    expected = nn.functional.scaled_dot_product_attention(query, *shared, mask).transpose(1, 2)
    context, weights = attend(_Module(False), query, key, value, mask, output_attentions=True)
    torch.testing.assert_close(context, expected)
    assert weights is not None and weights.shape == (2, 8, 5, 7)


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_weights_that_the_model_is_asked_for_are_returned(name: str) -> None:
    eager, model = (strong(ARCHITECTURES[name].build(path, 0.0).eval()) for path in ("eager", "sdpa"))
    inputs = ARCHITECTURES[name].inputs("none")
    replace_attention(model, SAME, inputs)
    with torch.no_grad():
        expected, found = (one(**inputs, output_attentions=True) for one in (eager, model))
    parts = [part for part in expected if "attentions" in part]
    assert parts
    for part in parts:
        torch.testing.assert_close(found[part], expected[part], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_weights_that_the_configuration_asks_for_are_returned(name: str) -> None:
    model = ARCHITECTURES[name].build("eager", 0.0).eval()
    model.config.output_attentions = True
    inputs = ARCHITECTURES[name].inputs("none")
    with torch.no_grad():
        expected = model(**inputs)
        replace_attention(model, SAME, inputs)
        found = model(**inputs)
    for part in [part for part in expected if "attentions" in part]:
        torch.testing.assert_close(found[part], expected[part], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_other_modules_return_their_weights_as_well(name: str) -> None:
    """A list with the weights of some layers only would not say of which."""
    eager, model = (strong(ARCHITECTURES[name].build(path, 0.0).eval()) for path in ("eager", "sdpa"))
    inputs = ARCHITECTURES[name].inputs("padding")
    *_, last = replace_attention(ARCHITECTURES[name].build("sdpa", 0.0), SAME, inputs)
    replace_attention(model, SAME, inputs, names=[last])
    with torch.no_grad():
        expected, found = (one(**inputs, output_attentions=True) for one in (eager, model))
    for part in [part for part in expected if "attentions" in part]:
        assert len(found[part]) == len(expected[part])
        for one, other in zip(found[part], expected[part], strict=True):
            rows = one.any(-1)  # in those without a key, other paths attend to padding
            torch.testing.assert_close(one[rows], other[rows], atol=1e-5, rtol=1e-4)


def test_an_inner_model_runs_once_inside_the_outer_one() -> None:
    config = transformers.BertConfig(**SMALL, **WORDS)
    model = transformers.BertForSequenceClassification(config)
    runs: list[Tensor] = []
    model.bert.register_forward_hook(lambda module, inputs, output: runs.append(output[0]))
    assert len(replace_attention(model, SAME)) == 2
    assert len(runs) == 1


def test_a_model_of_transformers_stays_as_it_is_if_only_others_are_chosen() -> None:
    model = nn.ModuleDict(
        {"words": ARCHITECTURES["BERT"].build("eager", 0.0), "joint": nn.MultiheadAttention(32, 4)}
    )
    assert list(replace_attention(model, SAME, names=["joint"])) == ["joint"]
    assert model["words"].config._attn_implementation == "eager"
    assert len(replace_attention(model, SAME)) == 3
    assert model["words"].config._attn_implementation == "attention_lab"


def test_an_error_restores_the_configurations_within() -> None:
    def fail(*sizes: Any, **options: Any) -> Any:
        raise RuntimeError("no such score")

    model: Any = build("moshi", "sdpa")
    configs = [model.config, *(getattr(model.config, name) for name in model.config.sub_configs)]
    before = [one._attn_implementation for one in configs]
    assert len(configs) > 1
    with pytest.raises(RuntimeError, match="no such score"):
        replace_attention(model, Mechanism(fail), inputs_of("moshi", model, padding=False))
    assert [one._attn_implementation for one in configs] == before


def test_nothing_is_logged_about_a_model_that_cannot_change(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("transformers.modeling_utils")
    before = logger.level
    logger.addHandler(caplog.handler)
    try:
        model = build("bloom", "eager")
        with pytest.raises(ValueError, match="BloomModel has no attention that can be replaced"):
            replace_attention(model, SAME)
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.records == [] and logger.level == before


def test_a_model_that_is_replaced_twice_has_the_last_mechanism() -> None:
    model = ARCHITECTURES["BERT"].build("sdpa", 0.0)
    first = replace_attention(model, SAME)
    second = replace_attention(model, SAME)
    assert list(first) == list(second)
    for name, attention in second.items():
        assert model.get_submodule(f"{name}.mechanism") is attention is not first[name]


def test_a_model_is_unpickled_where_nothing_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    model = _llama().eval()
    tokens = torch.randint(3, 60, (2, 6))
    replace_attention(model, SAME)
    expected = model(tokens)[0]
    pickled = pickle.dumps(model)
    for interface in (AttentionInterface, AttentionMaskInterface):
        for name in [name for name in interface._global_mapping if name.startswith("attention_lab")]:
            monkeypatch.delitem(interface._global_mapping, name)
    assert torch.equal(pickle.loads(pickled)(tokens)[0], expected)


class _Adapter(nn.Module):
    """A trainable copy of a module beside the original, as PEFT's `modules_to_save` makes it."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original
        self.trained = copy.deepcopy(original)
        self.enabled = True

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.trained if self.enabled else self.original, name)


def _with_additive_scores() -> tuple[Any, Tensor, Tensor]:
    """A model with replaced attention, its input and its output."""
    model = _llama().eval()
    tokens = torch.randint(3, 60, (2, 6))
    replace_attention(model, Mechanism(Additive))
    expected = model(tokens)[0]
    return model, tokens, expected


def _check_adapters(adapters: list[Any], model: nn.Module, tokens: Tensor, expected: Tensor) -> Tensor:
    """The copies are used, recorded and trained, and the originals instead of disabled copies.

    `expected` is the output of the originals; returns that of the copies.
    """
    for adapter in adapters:
        for parameter in adapter.trained.parameters():
            nn.init.normal_(parameter)
    with recording(model) as weights:
        found = model(tokens)[0]
    assert list(weights) == [f"layers.{layer}.self_attn" for layer in range(2)]
    assert (found - expected).abs().max() > 0.1
    found.sum().backward()
    assert all(one.grad is not None for adapter in adapters for one in adapter.trained.parameters())
    for adapter in adapters:
        adapter.enabled = False
    torch.testing.assert_close(model(tokens)[0], expected)
    return found  # type: ignore[no-any-return]


def test_a_mechanism_works_inside_a_wrapper() -> None:
    model, tokens, expected = _with_additive_scores()
    for layer in model.layers:
        layer.self_attn.mechanism = _Adapter(layer.self_attn.mechanism)
    torch.testing.assert_close(model(tokens)[0], expected)
    adapters = [layer.self_attn.mechanism for layer in model.layers]
    found = _check_adapters(adapters, model, tokens, expected)
    for layer, adapter in zip(model.layers, adapters, strict=True):
        layer.self_attn.mechanism = torch.compile(adapter.trained, backend="eager")
    torch.testing.assert_close(model(tokens)[0], found)


def test_a_score_works_inside_a_wrapper() -> None:
    """PEFT wraps each module called `score` of a classifier."""
    model, tokens, expected = _with_additive_scores()
    for layer in model.layers:
        layer.self_attn.mechanism.score = _Adapter(layer.self_attn.mechanism.score)
    with recording(model) as weights:
        torch.testing.assert_close(model(tokens)[0], expected)
    assert {name: one.shape for name, one in weights.items()} == {
        f"layers.{layer}.self_attn": (2, 4, 6, 6) for layer in range(2)
    }
    adapters = [layer.self_attn.mechanism.score for layer in model.layers]
    _check_adapters(adapters, model, tokens, expected)
    model.layers[0].self_attn.mechanism = _Adapter(model.layers[0].self_attn.mechanism)
    with pytest.raises(TypeError, match="mechanism of LlamaAttention is wrapped, and so is its score"):
        model(tokens)


def test_a_wrapper_that_hides_the_mechanism_is_no_reason_to_attend_without_it() -> None:
    model = _llama().eval()
    replace_attention(model, SAME)
    model.layers[1].self_attn.mechanism = nn.Sequential(model.layers[1].self_attn.mechanism)
    with pytest.raises(
        TypeError, match="the mechanism of LlamaAttention is a Sequential, which hides the attention in it"
    ):
        model(torch.randint(3, 60, (2, 6)))
