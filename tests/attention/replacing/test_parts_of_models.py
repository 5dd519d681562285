"""Models of transformers with parts that a mechanism does not reach, and with parts of their own formula."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from architectures import SHARED, SMALL, WORDS, strong
from many import build
from torch import Tensor, nn

from attention_lab import replace_attention
from attention_lab.attention import Attention, Mechanism, ScaledDot, Sparsemax
from attention_lab.attention.replacing.attend import attend

SAME = Mechanism(ScaledDot)


def _tokens(length: int) -> Tensor:
    return torch.randint(10, 58, (2, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["git", "pegasus_x", "nllb-moe"])
def test_attention_and_layers_that_take_the_mask_of_a_model_without_the_interface(name: str) -> None:
    """The models add their masks, so a boolean one would change what these parts compute."""
    model: Any = build(name, "eager")
    inputs = {"input_ids": _tokens(7), "attention_mask": (torch.arange(7) < torch.tensor([[7], [4]])).long()}
    if name == "git":
        inputs["pixel_values"] = torch.randn(2, 3, 32, 32)
    else:
        inputs["decoder_input_ids"] = _tokens(5)
    kept = {"git": "encoder.layer.0.attention.self", "pegasus_x": "encoder.layers.0.self_attn"}.get(name)
    with torch.no_grad():
        expected = model(**inputs)[0]
        with pytest.warns(UserWarning, match=f"not put in {kept!r}") if kept else nullcontext():
            assert replace_attention(model, SAME, inputs)
        found = model(**inputs)[0]
    torch.testing.assert_close(found, expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-4)


class _Pooling(nn.Module):
    """Attends once by the function, and once with its own operations."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
        self.pool = Pool()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.pool(self.layer(x))
        return output


class Pool(nn.Module):
    """Means of the positions, with weights of softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x).softmax(1).transpose(1, 2) @ x).squeeze(1)


def test_attention_by_operations_of_the_model_itself_is_named() -> None:
    """A softmax that stays where a user believes that it is replaced; not if the user leaves it out."""
    inputs = torch.randn(2, 5, 32)
    with pytest.warns(
        UserWarning,
        match=r"^replace_attention: the mechanism was not put in 'pool' \(Pool\), where _Pooling computes "
        "attention with its own operations: they stay as they are$",
    ):
        assert list(replace_attention(_Pooling(), SAME, inputs)) == ["layer.self_attn"]
    assert list(replace_attention(_Pooling(), SAME, inputs, names=["layer"])) == ["layer.self_attn"]


class _Whole(Pool):
    """Attends with its own operations around a layer that attends by the function."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.layer(x))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_model_that_attends_itself_is_named(device: str) -> None:
    model, inputs = _Whole().to(device), torch.randn(2, 5, 32, device=device)
    with pytest.warns(
        UserWarning, match="not put in the model, where _Whole computes attention with its own op"
    ):
        assert list(replace_attention(model, SAME, inputs)) == ["layer.self_attn"]


class _Around(nn.Module):
    """Attends by the function, around a part that attends with its own operations."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.pool(F.scaled_dot_product_attention(x, x, x))
        return output


def test_a_part_of_a_replaced_module_that_attends_itself_is_named() -> None:
    with pytest.warns(UserWarning, match=r"not put in '0\.pool' \(Pool\)"):
        assert list(replace_attention(nn.Sequential(_Around()), SAME, torch.randn(2, 5, 32))) == ["0"]


def _llava() -> Any:
    vision = transformers.CLIPVisionConfig(**SMALL, image_size=16, patch_size=4)
    text = transformers.LlamaConfig(**SMALL, **WORDS, **SHARED)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_id=59)
    return strong(transformers.LlavaForConditionalGeneration(config).eval())


def test_attention_that_does_not_run_is_not_left_out_in_silence() -> None:
    model = _llava()
    with pytest.raises(
        ValueError,
        match=r"does not call the attention interface in 2 of its attentions, such as model.vision_tower"
        r".encoder.layers.0.self_attn, with its dummy_inputs: give inputs that use them; or "
        r"choose others with names=\[...\]",
    ):
        replace_attention(model, SAME)
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(
        ValueError, match=r"in 1 of its attentions, such as .*layers.1.self_attn, with these inputs"
    ):
        replace_attention(model, SAME, _tokens(4), names=["model.vision_tower.encoder.layers.1"])
    assert len(replace_attention(model, SAME, names=["model.language_model"])) == 2
    inputs = {"input_ids": _tokens(24), "pixel_values": torch.randn(2, 3, 16, 16)}
    inputs["input_ids"][:, 2:18] = 59
    model = _llava()
    with torch.no_grad():
        expected = model(**inputs)[0]
        assert len(replace_attention(model, SAME, inputs)) == 4
        torch.testing.assert_close(model(**inputs)[0], expected, atol=1e-5, rtol=1e-4)


def test_a_model_with_copies_of_the_configurations_of_its_parts() -> None:
    """The modules in its encoder keep another configuration, which transformers does not reach."""
    encoder = transformers.BertModel(transformers.BertConfig(**SMALL, **WORDS))
    options = {**SMALL, **WORDS, "is_decoder": True, "add_cross_attention": True}
    decoder = transformers.BertLMHeadModel(transformers.BertConfig(**options))
    model: Any = strong(transformers.EncoderDecoderModel(encoder=encoder, decoder=decoder).eval())
    inputs = {"input_ids": _tokens(7), "decoder_input_ids": _tokens(5)}
    with torch.no_grad():
        expected = model(**inputs)[0]
        assert len(replace_attention(model, SAME, inputs)) == 6
        torch.testing.assert_close(model(**inputs)[0], expected, atol=1e-5, rtol=1e-4)
        replace_attention(model, Mechanism(ScaledDot, normalizer=Sparsemax), inputs, names=["encoder"])
        assert not torch.allclose(model(**inputs)[0], expected, atol=1e-3)
        model.set_attn_implementation("sdpa")
        torch.testing.assert_close(model(**inputs)[0], expected)


def test_attention_that_chooses_keys_of_its_own_is_rejected() -> None:
    sizes = {**SMALL, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "v_head_dim": 8}
    sizes |= {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 1}
    sizes |= {"index_topk": 2, "index_head_dim": 16, "index_n_heads": 2, "n_group": 1, "topk_group": 1}
    config = transformers.DeepseekV32Config(**sizes, **WORDS)
    model = transformers.DeepseekV32Model._from_config(config, attn_implementation="sdpa")
    with pytest.raises(ValueError, match="DeepseekV32Attention has its own selection of keys, which"):
        replace_attention(model, SAME)
    assert model.config._attn_implementation == "sdpa"


class _Module(nn.Module):
    """A module of transformers that attends."""

    def __init__(self, replaced: bool, is_kv_shared_layer: bool = False) -> None:
        super().__init__()
        self.is_causal, self.is_kv_shared_layer = True, is_kv_shared_layer
        self.mechanism = Attention(ScaledDot(4, 4)) if replaced else None


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("option", ["s_aux", "sinks", "softcap", "indices", "block_indices"])
def test_a_call_with_a_part_of_its_own_formula_is_rejected(option: str, replaced: bool) -> None:
    query, key, value = torch.randn(3, 2, 1, 5, 4)
    with pytest.raises(ValueError, match=r"_Module has .*, which a mechanism would drop"):
        attend(_Module(replaced), query, key, value, None, **{option: torch.ones(1)})  # type: ignore[arg-type]


@pytest.mark.parametrize("replaced", [False, True])
def test_layers_that_share_keys_may_have_only_the_last_queries(replaced: bool) -> None:
    """Gemma 4 leaves out the queries whose outputs nobody needs, without a mask."""
    query, key, value = torch.randn(3, 2, 1, 5, 4)
    module = _Module(replaced, is_kv_shared_layer=True)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)[:, :, 2:]
    context, _ = attend(module, query[:, :, 2:], key, value, None)
    torch.testing.assert_close(context, expected.transpose(1, 2))
