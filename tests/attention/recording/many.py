"""Tiny models of many architectures of transformers, made by reducing the sizes in their configurations."""

import inspect
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

BATCH, LENGTH, TARGET, VOCABULARY = 2, 7, 5, 120

DECODERS = """afmoe apertus arcee biogpt bitnet bloom codegen cohere cohere2 ctrl cwm deepseek_v3 doge
ernie4_5 exaone4 falcon flex_olmo gemma gemma2 gemma3_text glm glm4 glm4_moe gpt2 gpt_bigcode gpt_neo
gpt_neox gptj granite granitemoe helium hunyuan_v1_dense internlm3 jamba jetmoe lfm2 llama llama4_text
minicpm3 ministral mistral mistral4 mixtral modernbert-decoder moshi mpt nanochat nemotron olmo olmo2
olmo3 olmoe openai-gpt opt persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe seed_oss smollm3
stablelm starcoder2 vaultgemma xglm xlnet youtu"""
ENCODERS = """bert bert-generation camembert canine convbert data2vec-text deberta deberta-v2 distilbert
electra ernie esm eurobert flaubert funnel gte ibert layoutlm luke markuplm megatron-bert mobilebert
modernbert mpnet nomic_bert nystromformer rembert roberta roberta-prelayernorm roc_bert roformer splinter
tapas xlm xlm-roberta xlm-roberta-xl"""
PAIRS = """bart blenderbot blenderbot-small fsmt m2m_100 marian mbart mt5 mvp pegasus plbart
switch_transformers t5 t5gemma umt5"""
PICTURES = """beit data2vec-vision deit dinov2 dinov2_with_registers dinov3_vit dpt ijepa pixio
siglip_vision_model swin swinv2 vit vit_msn vitdet yolos"""
SOUNDS = "data2vec-audio hubert sew unispeech wav2vec2"
UNRECORDED = "led longformer mra rwkv yoso"
NAMES = [name for kind in (DECODERS, ENCODERS, PAIRS, PICTURES, SOUNDS) for name in kind.split()]

_SIZES: dict[int, str] = {
    1: "num_experts_per_tok moe_top_k moe_k top_k_experts n_group topk_group n_shared_experts",
    2: """num_key_value_heads num_kv_heads num_hidden_layers n_layer n_layers num_layers encoder_layers
    decoder_layers num_decoder_layers num_encoder_layers""",
    3: "sliding_window attention_chunk_size",
    4: """num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads
    num_local_experts num_experts n_routed_experts rotary_dim""",
    8: "head_dim d_kv attention_head_size d_head patch_size v_head_dim qk_nope_head_dim qk_rope_head_dim",
    16: "kv_lora_rank q_lora_rank qk_head_dim",
    32: """hidden_size d_model n_embd dim embed_dim emb_dim encoder_hidden_size embedding_size projection_size
    word_embed_proj_dim image_size""",
    48: """intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff d_inner n_inner
    moe_intermediate_size shared_expert_intermediate_size""",
    64: "max_position_embeddings n_positions n_ctx",
    VOCABULARY: "vocab_size",
}
_SMALL = {name: size for size, names in _SIZES.items() for name in names.split()}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_LATENT = {"num_key_value_heads": 4}
_WINDOWS = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 2, "patch_size": 4}
_OTHER: dict[str, dict[str, Any]] = {
    "deepseek_v3": {**_LATENT, "first_k_dense_replace": 1},
    "esm": {
        "vocab_size": VOCABULARY,
        "position_embedding_type": "rotary",
        "pad_token_id": 1,
        "mask_token_id": 4,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 3},
    "jamba": {"num_hidden_layers": 8, "mamba_dt_rank": 4},
    "llama4_text": {"num_hidden_layers": 4},
    "minicpm3": _LATENT,
    "ministral": {
        "head_dim": 8,
        "num_key_value_heads": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mistral4": {**_LATENT, "head_dim": 16},
    "hunyuan_v1_dense": {"head_dim": 8, "num_key_value_heads": 2},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 2},
    "swin": _WINDOWS,
    "swinv2": _WINDOWS,
    "youtu": _LATENT,
}


def implementations(name: str) -> list[str]:
    """The kinds of attention that a model offers, of those to try."""
    return ["eager", "sdpa"] if _class(name)._supports_sdpa else ["eager"]


def _class(name: str) -> Any:
    found = MODEL_MAPPING[CONFIG_MAPPING[name]]
    return found[0] if isinstance(found, tuple) else found


def build(name: str, implementation: str) -> nn.Module:
    """A tiny model, with weights large enough for attention that is far from uniform."""
    kind = CONFIG_MAPPING[name]
    config = kind(**_reduced(kind()) | _OTHER.get(name, {}))
    model: Any = _class(name)._from_config(config, attn_implementation=implementation)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.25)
    return model.eval()  # type: ignore[no-any-return]


def _reduced(config: PreTrainedConfig) -> dict[str, Any]:
    """The options of a configuration that are sizes or tokens, made small."""
    found: dict[str, Any] = {}
    for option, value in vars(config).items():
        size = _SMALL.get(config.attribute_map.get(option, option))
        if isinstance(value, PreTrainedConfig):
            found[option] = {**_reduced(value), "model_type": value.model_type}
        elif type(value) is int and option.endswith("_token_id"):
            found[option] = _TOKENS.get(option, 3)
        elif type(value) is int and size is not None:
            found[option] = size
        elif option == "mask_time_prob":  # of spans that are longer than these inputs
            found[option] = 0.0
    return found


def inputs_of(name: str, model: nn.Module, *, padding: bool) -> dict[str, Any]:
    """Inputs for a model; those of text may be padded on the right."""
    generator = torch.Generator().manual_seed(1)
    config: Any = model.config
    if name in PICTURES.split():
        size = config.image_size if isinstance(getattr(config, "image_size", 32), int) else 32
        return {"pixel_values": torch.randn(BATCH, 3, size, size, generator=generator)}
    if name in SOUNDS.split():
        return {"input_values": torch.randn(BATCH, 3200, generator=generator)}
    tokens = torch.randint(10, 100, (BATCH, LENGTH), generator=generator)
    inputs: dict[str, Any] = {"input_ids": tokens}
    if padding and "attention_mask" in inspect.signature(model.forward).parameters:
        inputs["attention_mask"] = (torch.arange(LENGTH) < torch.tensor([[LENGTH], [4]])).long()
    return inputs | ({"decoder_input_ids": tokens[:, :TARGET]} if name in PAIRS.split() else {})
