"""Any mechanism in models of transformers: the formula, the model's own parts around it, and errors."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest
import references
import torch
from architectures import ARCHITECTURES, default, in_float64, strong
from many import NAMES, build, implementations, inputs_of
from torch import Tensor, nn
from transformers import AttentionInterface

from attention_lab import recording, replace_attention
from attention_lab.attention import (
    Additive,
    Attention,
    Band,
    Entmax15,
    Gaussian,
    General,
    Hard,
    LocalP,
    Mechanism,
    ScaledDot,
    SinkSoftmax,
    Sparsemax,
)

SAME = Mechanism(ScaledDot)
OF_TRANSFORMERS = ["BERT", "GPT-2", "Llama", "Mistral", "ModernBERT", "T5", "Whisper", "ViT"]
REJECTED = """bloom codegen falcon gpt_neo gptj mpt openai-gpt xglm xlnet canine convbert deberta deberta-v2
flaubert funnel ibert luke megatron-bert mpnet nystromformer rembert roformer tapas xlm fsmt mvp
data2vec-vision swinv2 vitdet gemma2 vaultgemma t5gemma"""
"""Architectures without the attention interface, and with a soft cap."""
MECHANISMS = {
    "scaled dot": SAME,
    "additive": Mechanism(Additive),
    "general, entmax": Mechanism(General, normalizer=Entmax15),
    "gaussian, sink": Mechanism(Gaussian, normalizer=SinkSoftmax),
    "sparsemax": Mechanism(ScaledDot, normalizer=Sparsemax),
    "band": Mechanism(ScaledDot, window=partial(Band, width=2)),
    "local-p": Mechanism(ScaledDot, window=LocalP),
}


def _first(output: Any) -> Tensor:
    found: Tensor = output[0]
    return found


def _path(name: str) -> str:
    return "sdpa" if "sdpa" in ARCHITECTURES[name].implementations else "eager"


@pytest.mark.parametrize("padding", ["none", "padding"])
@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_the_scaled_dot_product_leaves_a_model_as_it_is(name: str, padding: str) -> None:
    """In training with dropout, too: the random numbers are those of the model."""
    architecture = ARCHITECTURES[name]
    model, inputs = architecture.build(_path(name), 0.1), architecture.inputs(padding)
    model.train(padding == "none")
    modes = {module: module.training for module in model.modules()}
    state = torch.get_rng_state()
    expected = _first(model(**inputs))
    names = set(replace_attention(model, SAME, inputs))
    assert all(module.training == mode for module, mode in modes.items()) and names
    torch.set_rng_state(state)
    torch.testing.assert_close(_first(model(**inputs)), expected, atol=2e-6, rtol=1e-4)
    for module in names:
        attention = model.get_submodule(f"{module}.mechanism")
        assert isinstance(attention, Attention) and attention.training == model.training


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_architectures_stay_as_they_are(name: str) -> None:
    """Those that cannot change in this version of transformers may change in another."""
    model = build(name, implementations(name)[-1])
    inputs = inputs_of(name, model, padding=True)
    with torch.no_grad():
        expected = _first(model(**inputs))
        with suppress(ValueError) if name in REJECTED.split() else nullcontext():
            assert replace_attention(model, SAME, inputs)
        found = _first(model(**inputs))
    torch.testing.assert_close(found, expected, atol=1e-4 * float(expected.abs().max()), rtol=1e-4)


def _reference(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The mechanism of a module, written from the formula."""
    attention = module.mechanism
    groups = query.shape[1] // key.shape[1]
    key, value = (x[:, [head // groups for head in range(query.shape[1])]] for x in (key, value))
    seen = torch.ones(*query.shape[:3], key.shape[2], dtype=torch.bool)
    if attention_mask is not None:
        seen = seen & attention_mask
    elif getattr(module, "is_causal", True) if is_causal is None else is_causal:
        seen = seen.tril()
    scores = references.scores(attention.score, query, key)
    if isinstance(attention.score, ScaledDot) and scaling is not None:
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * scaling
    scores = scores if position_bias is None else scores + position_bias
    context, _ = references.attend(attention, scores, query, value, seen)
    return context.transpose(1, 2), None


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_a_model_has_the_values_and_gradients_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, name: str, mechanism: str
) -> None:
    torch.manual_seed(0)
    with default(torch.float64), in_float64():
        model = ARCHITECTURES[name].build("sdpa", 0.0).double()
        inputs = {key: x[:2] for key, x in ARCHITECTURES[name].inputs("padding").items()}
        replace_attention(model, MECHANISMS[mechanism], inputs)
        found = _with_gradients(model, inputs)
        monkeypatch.setitem(AttentionInterface._global_mapping, "attention_lab", _reference)
        expected = _with_gradients(model, inputs)
    for part, one in expected.items():
        torch.testing.assert_close(found[part], one, atol=1e-9, rtol=1e-6, msg=part)


def _with_gradients(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Tensor | None]:
    model.zero_grad()
    output = _first(model(**inputs))
    output.square().sum().backward()  # type: ignore[no-untyped-call]
    return {"output": output.detach()} | {
        name: None if one.grad is None else one.grad.clone() for name, one in model.named_parameters()
    }


def test_recording_sees_the_new_weights() -> None:
    model = strong(ARCHITECTURES["BERT"].build("sdpa", 0.0).eval())
    inputs = ARCHITECTURES["BERT"].inputs("padding")
    names = replace_attention(model, MECHANISMS["sparsemax"])
    with torch.no_grad(), recording(model) as weights:
        model(**inputs)
    assert list(weights) == list(names)
    found = torch.stack(list(weights.values()))
    assert (found == 0).float().mean() > 0.3
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:-1]))
    assert not found[:, 1, ..., 6:].any()


def test_new_parameters_are_trained_saved_and_loaded() -> None:
    build = partial(ARCHITECTURES["GPT-2"].build, "sdpa", 0.0)
    model, inputs = build().eval(), ARCHITECTURES["GPT-2"].inputs("none")
    new = replace_attention(model, MECHANISMS["additive"])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    before = {name: one.score.value_weight.clone() for name, one in new.items()}  # type: ignore[operator,union-attr]
    losses = []
    for _ in range(10):
        loss = (_first(model(**inputs))[..., 0] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert not any(torch.equal(one.score.value_weight, before[name]) for name, one in new.items())  # type: ignore[arg-type,union-attr]
    again = build().eval()
    replace_attention(again, MECHANISMS["additive"])
    again.load_state_dict(model.state_dict())
    assert torch.equal(_first(again(**inputs)), _first(model(**inputs)))


def test_only_the_named_modules_are_replaced() -> None:
    model = strong(ARCHITECTURES["BERT"].build("sdpa", 0.0).eval())
    inputs = ARCHITECTURES["BERT"].inputs("padding")
    plain = _first(model(**inputs))
    assert list(replace_attention(model, SAME, names=["encoder.layer.1"])) == [
        "encoder.layer.1.attention.self"
    ]
    assert not hasattr(model.get_submodule("encoder.layer.0.attention.self"), "mechanism")
    torch.testing.assert_close(_first(model(**inputs)), plain)
    replace_attention(model, MECHANISMS["sparsemax"], names=["encoder.layer.0"])
    assert not torch.allclose(_first(model(**inputs)), plain, atol=1e-3)
    model.set_attn_implementation("sdpa")  # type: ignore[operator]
    assert torch.equal(_first(model(**inputs)), plain)


def test_a_model_within_another_module_in_half_precision() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = ARCHITECTURES["BERT"].build("sdpa", 0.0)
            self.head = nn.Linear(32, 2)

        def forward(self, input_ids: Tensor) -> Tensor:
            output: Tensor = self.head(self.encoder(input_ids)[0][:, 0])
            return output

    model = Classifier().to(torch.bfloat16)
    new = replace_attention(model, MECHANISMS["additive"])
    assert list(new) == [f"encoder.encoder.layer.{layer}.attention.self" for layer in range(2)]
    assert {one.dtype for attention in new.values() for one in attention.parameters()} == {torch.bfloat16}
    tokens = ARCHITECTURES["BERT"].inputs("none")["input_ids"]
    assert model(tokens).isfinite().all()
    assert list(replace_attention(model, SAME, (tokens,))) == list(new)


def test_hard_pooling_works_without_dropout() -> None:
    model = ARCHITECTURES["BERT"].build("sdpa", 0.1)
    inputs = ARCHITECTURES["BERT"].inputs("none")
    replace_attention(model, Mechanism(ScaledDot, pooling=Hard))
    assert _first(model.eval()(**inputs)).isfinite().all()
    with pytest.raises(ValueError, match=r"soft pooling, not with \w+: set its attention dropout to 0"):
        model.train()(**inputs)


@pytest.mark.parametrize(
    ("name", "inputs", "error", "message"),
    [
        ("Gemma 2", None, ValueError, "Gemma2Attention has a soft cap of its scores, which a mechanism"),
        ("GPT-OSS", None, ValueError, "GptOssAttention has sinks, which a mechanism would drop"),
        ("ViT", None, ValueError, "ViTModel fails with its dummy_inputs, so give inputs: "),
        ("BERT", {"pixels": 1}, ValueError, "BertModel fails with these inputs: "),
        ("x-transformers", None, ValueError, "Encoder does not call scaled_dot_product_attention in 2 of"),
    ],
)
def test_models_that_cannot_change_stay_as_they_are(
    name: str, inputs: Any, error: type[Exception], message: str
) -> None:
    model = ARCHITECTURES[name].build(_path(name), 0.0)
    parts = dict(model.named_modules())
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    with pytest.raises(error, match=message):
        replace_attention(model, SAME, inputs)
    assert getattr(getattr(model, "config", None), "_attn_implementation", None) == before
    assert dict(model.named_modules()) == parts and all(part.training for part in parts.values())


def test_a_mechanism_that_cannot_be_made_changes_nothing() -> None:
    def fail(*sizes: Any, **options: Any) -> Any:
        raise RuntimeError("no such score")

    model = ARCHITECTURES["BERT"].build("sdpa", 0.0)
    with pytest.raises(RuntimeError, match="no such score"):
        replace_attention(model, Mechanism(fail))
    assert model.config._attn_implementation == "sdpa"  # type: ignore[union-attr]


Call = Callable[[nn.Module], object]


@pytest.fixture
def bert() -> nn.Module:
    return ARCHITECTURES["BERT"].build("sdpa", 0.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: replace_attention(model, ScaledDot), TypeError, "must be a Mechanism, such as"),
        (lambda model: replace_attention("bert", SAME), TypeError, "takes a torch.nn.Module, not"),
        (
            lambda model: replace_attention(model, SAME, names="encoder"),
            TypeError,
            r"a list of names, such as",
        ),
        (lambda model: replace_attention(model, SAME, names=["layer"]), KeyError, "no module has this name"),
        (
            lambda model: replace_attention(model, SAME, names=["pooler"]),
            ValueError,
            "no attention in pooler that",
        ),
    ],
)
def test_arguments_of_the_wrong_kind(
    bert: nn.Module, call: Call, error: type[Exception], message: str, unchecked_shapes: None
) -> None:
    with pytest.raises(error, match=message):
        call(bert)
