"""Any mechanism in modules that call `scaled_dot_product_attention`."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import references
import torch
import torch.nn.functional as F
import transformers
from architectures import SHARED, SMALL, WORDS
from fused_callers import CALLERS, HEADS, SIZE, Caller, Model, inputs, no_options
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attention_lab import MultiheadAttention, recording, replace_attention
from attention_lab.attention import (
    Additive,
    Band,
    Entmax15,
    General,
    Hard,
    LocalP,
    Mechanism,
    MultiHead,
    ScaledDot,
    Sparsemax,
)

SAME = Mechanism(ScaledDot)
MECHANISMS = {
    "additive": Mechanism(Additive),
    "general, entmax": Mechanism(General, normalizer=Entmax15),
    "sparsemax": Mechanism(ScaledDot, normalizer=Sparsemax),
    "band": Mechanism(ScaledDot, window=partial(Band, width=2)),
    "local-p": Mechanism(ScaledDot, window=LocalP),
}


def _with_gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    output = model(x)
    model.zero_grad()
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    found = {"output": output.detach(), "input": x.grad}
    found |= {name: one.grad for name, one in model.named_parameters()}
    return {name: one for name, one in found.items() if one is not None}


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 7), (7,)])
@pytest.mark.parametrize("name", CALLERS)
def test_the_scaled_dot_product_leaves_a_model_as_it_is(name: str, shape: tuple[int, ...]) -> None:
    if shape != (3, 7) and name in ("mask [B, 1, 1, K]", "added mask"):
        shape = (3, 7)  # for which the mask is made
    model, x = Model(CALLERS[name]), inputs(*shape)
    state = {key: one.clone() for key, one in model.state_dict().items()}
    expected = _with_gradients(model, x)
    assert list(replace_attention(model, SAME, x)) == ["layers.0", "layers.1"]
    found = _with_gradients(model, x)
    assert found.keys() == expected.keys() and model.state_dict().keys() == state.keys()
    for part, one in expected.items():
        torch.testing.assert_close(found[part], one, atol=1e-5, rtol=1e-4, msg=part)


@pytest.mark.parametrize("shape", [(0, 7), (3, 0), (2, 0, 7), (0,)])
@pytest.mark.parametrize("name", ["plain", "causal", "grouped", "one head", "cross"])
def test_nothing_to_attend_to_is_as_before(name: str, shape: tuple[int, ...]) -> None:
    if name == "one head" and len(shape) == 3:
        shape = (2, 7, 0)  # else it would have no heads, for which PyTorch 2.11 crashes
    model, x = Model(CALLERS[name]), inputs(*shape)
    expected = model(x)
    replace_attention(model, SAME, inputs(*(size or 2 for size in shape)))
    torch.testing.assert_close(model(x), expected)


def _reference(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The mechanism of a module, written from the formula."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    seen = torch.ones(*query.shape[:-1], key.shape[-2], dtype=torch.bool)
    bias = torch.zeros(seen.shape, dtype=query.dtype)
    if is_causal:
        seen = seen.tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        seen = seen & attn_mask
    elif attn_mask is not None:
        bias = bias + attn_mask
    scores = references.scores(module.mechanism.score, query, key)
    if isinstance(module.mechanism.score, ScaledDot) and scale is not None:
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * scale
    context, _ = references.attend(module.mechanism, scores + bias, query, value, seen)
    return context


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["plain", "causal", "scale", "mask [H, Q, K]", "learned bias", "grouped"])
def test_a_model_has_the_values_and_gradients_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, name: str, mechanism: str
) -> None:
    model, x = Model(CALLERS[name]).double(), inputs(3, 6).double()
    replaced = copy.deepcopy(model)
    new = replace_attention(replaced, MECHANISMS[mechanism], x)
    found = _with_gradients(replaced, x)
    for part, attention in new.items():
        layer: Any = model.get_submodule(part)
        layer.mechanism = attention
    layers = iter([*model.layers] * 2)
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *args, **options: _reference(next(layers), *args, **options)
    )
    expected = _with_gradients(model, x)
    assert found.keys() == expected.keys()
    for part, one in expected.items():
        torch.testing.assert_close(found[part], one, atol=1e-9, rtol=1e-6, msg=part)


def test_other_code_sees_the_same_model() -> None:
    model, x = Model(), inputs(3, 7)
    weight = model.layers[0].project.weight
    replace_attention(model, MECHANISMS["additive"], x)
    layer: Any = model.layers[0]
    assert isinstance(layer, Caller) and layer.project.weight is weight
    assert (type(layer).__name__, type(layer).__module__) == ("Caller", "fused_callers")
    query = torch.randn(2, 3, 4)
    context = F.scaled_dot_product_attention(query, query, query)
    torch.testing.assert_close(context, (query @ query.mT / 2).softmax(-1) @ query)
    expected = model(x)
    with recording(model) as weights:
        assert torch.equal(model(x), expected)
    assert {name: one.shape for name, one in weights.items()} == {
        f"layers.{layer}": (3, HEADS, 7, 7) for layer in range(2)
    }


class InBlocks(Caller):
    """Attends in blocks of positions; the dimension of heads is before theirs, as in NesT and Hiera."""

    num_heads = HEADS

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        options = {"attn_mask": torch.arange(query.shape[2])[:, None, None] < 2} if self.training else {}
        return super().attend(query, key, value, **options).transpose(1, 2)


@pytest.mark.parametrize("mechanism", ["additive", "sparsemax"])
def test_the_dimension_of_heads_has_their_number(mechanism: str) -> None:
    x = inputs(3, 2, 7)
    blocks, plain = Model(InBlocks).eval(), Model(Caller).eval()
    replace_attention(blocks, MECHANISMS[mechanism], x)
    replace_attention(plain, MECHANISMS[mechanism], x)
    blocks.load_state_dict(plain.state_dict())
    for one in (x, inputs(2, 5, 3)):
        torch.testing.assert_close(blocks(one), plain(one))
    torch.testing.assert_close(blocks.train()(x), plain(x))  # the mask hides no key of these two blocks


@pytest.mark.parametrize("around", ["autocast", "inference"])
def test_new_parameters_can_be_trained_like_those_of_the_model(around: str) -> None:
    model, x = Model(), inputs(3, 7)
    with torch.autocast("cpu", torch.bfloat16) if around == "autocast" else torch.inference_mode():
        new = replace_attention(model, MECHANISMS["additive"], x)
    for attention in new.values():
        assert {one.dtype for one in attention.parameters()} == {torch.float32}
    model(x).sum().backward()
    assert all(one.grad is not None for one in model.parameters())


COPIES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "copied": copy.deepcopy,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_its_own_mechanism(how: str) -> None:
    model, x = Model(Caller), inputs(3, 7)
    replace_attention(model, MECHANISMS["additive"], x)
    expected = model(x)
    other: Any = COPIES[how](model)
    assert torch.equal(other(x), expected) and type(other.layers[0]) is type(model.layers[0])
    for parameter in other.layers[0].mechanism.parameters():
        nn.init.zeros_(parameter)
    assert not torch.equal(other(x), expected) and torch.equal(model(x), expected)
    fresh = Model(Caller)
    replace_attention(fresh, MECHANISMS["additive"], x)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(x), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated", "ignore::torch.jit.TracerWarning")
def test_a_replaced_model_can_be_compiled_exported_and_traced(unchecked_shapes: None) -> None:
    model, x = Model(), inputs(3, 7)
    replace_attention(model, MECHANISMS["additive"], x)
    expected = _with_gradients(model, x)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for part, one in _with_gradients(compiled, x).items():
        torch.testing.assert_close(one, expected[part.removeprefix("_orig_mod.")], msg=part)
    torch.testing.assert_close(compiled(inputs(2, 5)), model(inputs(2, 5)))
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), expected["output"])
    torch.testing.assert_close(torch.jit.trace(model, (x,))(x), expected["output"])


def test_the_layers_of_a_replaced_model_can_be_checkpointed() -> None:
    model, x = Model(), inputs(3, 7)
    replace_attention(model, MECHANISMS["additive"], x)
    expected = _with_gradients(model, x)
    model.zero_grad()
    y = x.clone().requires_grad_()
    output = y
    for layer in model.layers:
        output = output + checkpoint(layer, output, use_reentrant=False)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    assert torch.equal(y.grad, expected["input"])  # type: ignore[arg-type]


@pytest.mark.long
def test_a_compiled_model_is_found_and_compiled_again(unchecked_shapes: None) -> None:
    model, x = Model(), inputs(3, 7)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    before = compiled(x)
    new = replace_attention(compiled, MECHANISMS["sparsemax"], x)
    assert list(new) == ["_orig_mod.layers.0", "_orig_mod.layers.1"]
    torch.testing.assert_close(compiled(x), model(x))
    assert not torch.allclose(compiled(x), before)


def test_a_model_that_is_replaced_twice_has_the_last_mechanism() -> None:
    model, x = Model(), inputs(3, 7)
    expected = model(x)
    first = replace_attention(model, MECHANISMS["additive"], x)
    kind = type(model.layers[0])
    second = replace_attention(model, SAME, x)
    assert list(first) == list(second) and type(model.layers[0]) is kind
    assert model.layers[0].mechanism is second["layers.0"]
    torch.testing.assert_close(model(x), expected)


def test_weights_are_dropped_as_the_call_says_also_in_evaluation() -> None:
    model, x = Model(lambda: Caller(lambda length: {"dropout_p": 0.5})).eval(), inputs(3, 7)
    replace_attention(model, SAME, x)
    assert not torch.equal(model(x), model(x))
    for layer in model.layers:
        layer.options = no_options
    assert torch.equal(model(x), model(x))
    model.layers[0].options = lambda length: {"dropout_p": 0.5}
    model.layers[0].mechanism.pooling = Hard()
    with pytest.raises(ValueError, match="works only with soft pooling, not with"):
        model(x)


class Mixed(nn.Module):
    """All kinds of attention that are replaced, and one of ours, which is not."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = Caller()
        self.torch = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
        self.ours = MultiHead(Mechanism(Additive), SIZE, HEADS)
        self.llama: Any = transformers.LlamaModel(transformers.LlamaConfig(**SMALL, **WORDS, **SHARED))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fused(x)
        x = x + self.torch(x, x, x, need_weights=False)[0]
        x = x + self.ours(x)
        wide = torch.cat([x, x], -1)
        output: Tensor = self.llama(inputs_embeds=wide)[0][..., :SIZE] + x
        return output


def test_all_kinds_of_attention_in_one_model() -> None:
    model, x = Mixed().eval(), inputs(3, 7)
    expected = model(x)
    inside = [f"llama.layers.{layer}.self_attn" for layer in range(2)]
    assert list(replace_attention(model, SAME, x)) == ["torch", *inside, "fused"]
    assert type(model.torch) is MultiheadAttention and isinstance(model.ours.attention.score, Additive)
    torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-4)
    assert list(replace_attention(model, MECHANISMS["sparsemax"], x, names=["fused"])) == ["fused"]
    assert not torch.allclose(model(x), expected, atol=1e-3)
