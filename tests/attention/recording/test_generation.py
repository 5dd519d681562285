"""The steps of a generation are one matrix, as if the whole text had been read at once."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from architectures import SHARED, SMALL, WORDS
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from attention_lab.attention import Mechanism, ScaledDot, recording
from attention_lab.attention.recording.caches import keys_seen

LENGTH, NEW = 5, 6
OPTIONS: dict[str, dict[str, Any]] = {
    "Llama": {**SMALL, **WORDS, **SHARED},
    "Mistral": {**SMALL, **WORDS, **SHARED, "sliding_window": 4},
    "Gemma2": {**SMALL, **WORDS, **SHARED, "sliding_window": 4},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 60, "eos_token_id": 2},
}
CASES = [(name, path) for name in OPTIONS for path in ("sdpa", "eager") if (name, path) != ("Gemma2", "sdpa")]


def _model(name: str, path: str) -> nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**OPTIONS[name])
    kind = getattr(transformers, f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")
    return kind._from_config(config, attn_implementation=path).eval()  # type: ignore[no-any-return]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "path"), CASES)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_steps_are_the_rows_of_one_matrix(name: str, path: str, cache: str) -> None:
    if (name, cache) == ("GPT2", "static"):
        pytest.skip("the same path as Llama's")
    model: Any = _model(name, path)
    prompt = torch.randint(3, 60, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "attention_mask": prompt > 0}
    options |= {"pad_token_id": 0, "cache_implementation": cache, "disable_compile": True}
    plain = model.generate(prompt, **options)
    with recording(model) as steps:
        tokens = model.generate(prompt, **options)
    assert torch.equal(tokens, plain)
    with torch.no_grad(), recording(model) as together:
        model(tokens[:, :-1])
    assert list(steps) == list(together)
    rows = LENGTH + NEW - 1
    for module, weights in together.items():
        found, mask = steps[module], steps.mask(module)
        assert found.shape[:3] == weights.shape[:3] == (2, 4, rows) and found.shape == mask.shape
        assert torch.allclose(found[..., :rows], weights, atol=1e-5), module
        assert not found[..., rows:].any() and not found[~mask].any()


@pytest.mark.parametrize("path", ["sdpa", "eager"])
def test_the_attention_of_an_assistant_is_not_recorded(path: str) -> None:
    model: Any = _model("Llama", path)
    prompt = torch.randint(3, 60, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "attention_mask": prompt > 0}
    with recording(model) as weights:
        model.generate(prompt, assistant_model=_model("Llama", path), pad_token_id=0, **options)
    assert [*weights] == ["model.layers.0.self_attn", "model.layers.1.self_attn"]


def _own(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> tuple[Tensor, None]:
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    memory = module.own.remember(key, value, mask, causal=mask is None and query.shape[2] > 1)
    return module.own(query, memory).transpose(1, 2), None


@pytest.mark.long
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_our_own_attention_in_a_model_whose_cache_keeps_a_window(
    monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setitem(AttentionInterface._global_mapping, "own", _own)
    monkeypatch.setitem(AttentionMaskInterface._global_mapping, "own", sdpa_mask)
    model: Any = _model("Mistral", "sdpa")
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    options |= {"cache_implementation": cache, "disable_compile": True}
    prompt = torch.randint(3, 60, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    with recording(model) as wanted:
        model.generate(prompt, **options)
    for module in model.modules():
        if type(module).__name__ == "MistralAttention":
            module.own = Mechanism(ScaledDot)(module.head_dim, module.head_dim, 4)
    model.set_attn_implementation("own")
    with recording(model) as found:
        model.generate(prompt, **options)
    for name, weights in wanted.items():
        assert torch.allclose(found[f"{name}.own"], weights, atol=1e-5), name
        assert torch.equal(found.mask(f"{name}.own"), wanted.mask(name)), name


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_sliding_cache_is_found_by_its_name_in_any_version(name: str) -> None:
    module = nn.Module()
    module.layer_idx = 1
    window = SimpleNamespace(is_sliding=True, cumulative_length=7)
    variables = {"cache": None, name: SimpleNamespace(layers=[None, window])}
    assert keys_seen(module, variables) == 7


def test_encoder_and_decoder_of_a_generation() -> None:
    torch.manual_seed(0)
    options = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4, "vocab_size": 60}
    config = transformers.T5Config(**options, pad_token_id=0, decoder_start_token_id=0)
    model: Any = transformers.T5ForConditionalGeneration._from_config(
        config, attn_implementation="sdpa"
    ).eval()
    prompt = torch.randint(3, 60, (2, LENGTH))
    with recording(model, queries=slice(0, 4)) as weights:
        model.generate(prompt, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
    shapes = {name.split(".")[-1]: one.shape for name, one in weights.items() if name.startswith("decoder")}
    assert shapes == {"SelfAttention": (2, 4, 4, 4), "EncDecAttention": (2, 4, 4, LENGTH)}


def test_weights_without_the_dimension_of_a_single_key_are_not_weights_of_others() -> None:
    class Gate(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x[:, :1].mT).softmax(-1).squeeze(-1).unsqueeze(1) @ x

    with recording(model := Gate()) as weights:
        model(torch.randn(2, 4, 3))
    assert not weights


@pytest.mark.parametrize("name", ["keys first", "values first", "elementwise", "squeezed"])
def test_the_first_step_has_a_single_key(name: str) -> None:
    """Whose dimension does not show in the sizes when the weights are transposed."""

    class Steps(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            contexts = []
            for step in range(1, x.shape[1] + 1):
                query, keys = x[:, step - 1 : step], x[:, :step]
                if name == "keys first":
                    contexts.append((keys @ query.mT).softmax(1).transpose(1, 2) @ keys)
                elif name == "elementwise":
                    weights = (keys * query).sum(-1).softmax(1)
                    contexts.append((weights[..., None] * keys).sum(1, keepdim=True))
                elif name == "squeezed":
                    contexts.append((keys @ query.mT).softmax(1).squeeze(2).unsqueeze(1) @ keys)
                else:
                    contexts.append(keys.mT @ (query @ keys.mT).softmax(2).permute(0, 2, 1))
            return torch.cat(contexts, 2 if name == "values first" else 1)

    x = torch.randn(2, 4, 3)
    with recording(model := Steps()) as weights:
        model(x)
    causal = (x @ x.mT).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    assert torch.allclose(weights[""][:, 0], causal.softmax(-1), atol=1e-6)


class ReadsAndContinues(nn.Module):
    """Attends to a prompt and to a single step at two places in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        if before is None:
            hidden = torch.ones(x.shape[1], x.shape[1]).triu(1) > 0
            return (self.project(x) @ x.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ x
        keys = torch.cat([before, x], 1)
        return (self.project(x) @ keys.mT).softmax(-1) @ keys  # type: ignore[no-any-return]


class Layers(nn.ModuleList):
    """Layers that all read the same inputs."""

    def forward(self, *inputs: Tensor) -> None:
        for layer in self:
            layer(*(x.clone() for x in inputs))


@torch.no_grad()
def test_a_step_may_attend_at_another_place_of_the_code_than_the_prompt() -> None:
    """Each call of the module has one attention, so they have one name."""
    model, x = Layers(ReadsAndContinues() for _ in range(12)), torch.randn(2, 6, 8)
    with recording(model) as steps:
        model(x[:, :4])
        for end in (4, 5):
            model(x[:, end : end + 1], x[:, :end])
    with recording(model) as together:
        model(x)
    assert list(steps) == list(together) == [str(number) for number in range(12)]
    for name, weights in together.items():
        assert torch.allclose(steps[name], weights, atol=1e-6)


class Switches(nn.Module):
    """Attends at one place of its code in training and at another in evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]
        return (x @ x.mT).softmax(-1) @ x  # type: ignore[no-any-return]


def test_two_calls_with_the_same_inputs_have_one_name() -> None:
    model, x = Switches(), torch.randn(2, 3, 8)
    with recording(model) as weights:
        for _ in range(12):
            model.train()
            model(x)
            model.eval()
            model(x)
    assert {name: one.shape for name, one in weights.items()} == {"": (2, 1, 72, 3)}
