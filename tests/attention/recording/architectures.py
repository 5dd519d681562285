"""Small random models of other libraries, and the weights that they give themselves, computed eagerly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import transformers
import x_transformers
from torch import Tensor, nn

BATCH, LENGTH, TARGET = 3, 9, 5
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
WORDS = {
    "vocab_size": 60,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SHARED = {"num_key_value_heads": 2, "head_dim": 8}
PADDINGS = ("none", "padding", "empty rows")
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """A model of another library.

    Attributes:
        kind: what is special about its attention.
        build: from the implementation and the probability of dropout to a model.
        inputs: from a kind of padding to what the model is called with.
        eager: from a model and its inputs to the weights that it gives itself, in order of execution.
        implementations: those that it has.
        paddings: the kinds of padding that its inputs can have.
    """

    kind: str
    build: Callable[[str, float], nn.Module]
    inputs: Callable[[str], Inputs]
    eager: Callable[[nn.Module, Inputs], list[Tensor]]
    implementations: tuple[str, ...] = ("eager", "sdpa", "flex")
    paddings: tuple[str, ...] = PADDINGS


def real(padding: str) -> Tensor:
    """Which of the inputs `[B, L]` are no padding: in causal models, padding on the left makes empty rows."""
    found = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    if padding == "padding":
        found[1, 6:], found[2, 4:] = False, False
    elif padding == "empty rows":
        found[1, :3], found[2] = False, False
    return found


def _words(padding: str) -> Inputs:
    tokens = torch.randint(3, 60, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    return {"input_ids": tokens} | ({} if padding == "none" else {"attention_mask": real(padding).long()})


def _pairs(padding: str) -> Inputs:
    inputs = _words(padding)
    return inputs | {"decoder_input_ids": inputs["input_ids"][:, :TARGET]}


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(torch.get_default_dtype())


def _hugging_face(model: str, options: dict[str, Any], implementation: str, dropout: float) -> nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{model}Config")(**options)
    of_weights = {"attention_dropout", "attention_probs_dropout_prob", "attn_pdrop"}
    for name in of_weights | {"dropout_rate", "hidden_dropout_prob", "resid_pdrop", "dropout"}:
        if hasattr(config, name):  # transformers rejects dropout of weights in flex attention
            setattr(config, name, 0.0 if implementation == "flex" and name in of_weights else dropout)
    choice = {"flex": "flex_attention"}.get(implementation, implementation)
    kind = getattr(transformers, f"{model}Model")
    made: nn.Module = kind._from_config(config, attn_implementation=choice)
    if model == "GptOss":
        made.set_experts_implementation("eager")
    return made


def _attentions(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The weights that a model of transformers gives, encoder first, then self and cross in turn."""
    output = model(**inputs, output_attentions=True)
    if "encoder_attentions" not in output:
        return list(output.attentions)
    pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(weights for pair in pairs for weights in pair)]


def _of(model: str, kind: str, inputs: Callable[[str], Inputs] = _words, **options: Any) -> Architecture:
    rest = {name: options.pop(name) for name in ("implementations", "paddings") if name in options}
    return Architecture(kind, partial(_hugging_face, model, options), inputs, _attentions, **rest)


class Torch(nn.Transformer):
    """An `nn.Transformer` that is called with padding."""

    def forward(self, src: Tensor, tgt: Tensor, padding: Tensor | None) -> Tensor:  # type: ignore[override]
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], dtype=tgt.dtype)
        memory = self.encoder(src, src_key_padding_mask=padding)
        return self.decoder(  # type: ignore[no-any-return]
            tgt, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=padding
        )


def _torch(implementation: str, dropout: float) -> nn.Module:
    torch.manual_seed(0)
    return Torch(32, 4, 2, 2, 48, dropout, batch_first=True)


def _vectors(padding: str) -> Inputs:
    inputs = {"src": _noise(BATCH, LENGTH, 32), "tgt": _noise(BATCH, TARGET, 32)}
    return inputs | {"padding": None if padding == "none" else ~real(padding)}


def _torch_weights(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The weights of every `nn.MultiheadAttention`, asked for, so that it computes them eagerly."""
    found: list[Tensor] = []
    forward = nn.MultiheadAttention.forward

    def asked(self: nn.MultiheadAttention, *args: Any, **options: Any) -> Any:
        options |= {"need_weights": True, "average_attn_weights": False}
        output, weights = forward(self, *args, **options)
        found.append(weights)
        return output, weights

    with patch.object(nn.MultiheadAttention, "forward", asked), torch.enable_grad():  # no fast path
        model(**inputs)
    return [weights.detach() for weights in found]


class Encoder(nn.Module):
    """An encoder or decoder of x-transformers."""

    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.layers = kind(dim=32, depth=2, heads=4, attn_dim_head=8, **options)

    def forward(self, x: Tensor, mask: Tensor | None, return_hiddens: bool = False) -> Any:
        return self.layers(x, mask=mask, return_hiddens=return_hiddens)


def _x(kind: str, options: dict[str, Any], implementation: str, dropout: float) -> nn.Module:
    torch.manual_seed(0)
    flash = implementation == "sdpa"
    return Encoder(getattr(x_transformers, kind), attn_flash=flash, attn_dropout=dropout, **options)


def _x_inputs(padding: str) -> Inputs:
    return {"x": _noise(BATCH, LENGTH, 32), "mask": None if padding == "none" else real(padding)}


def _x_weights(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    _, hidden = model(**inputs, return_hiddens=True)
    return [one.post_softmax_attn[..., -LENGTH:] for one in hidden.attn_intermediates]


def _of_x(
    kind: str, of: str, implementations: tuple[str, ...] = ("eager", "sdpa"), **options: Any
) -> Architecture:
    return Architecture(of, partial(_x, kind, options), _x_inputs, _x_weights, implementations)


_gpt2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 60}
_t5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 60}
_whisper = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
_whisper |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8}
_whisper |= {"max_source_positions": LENGTH, "max_target_positions": 32, "vocab_size": 60, "pad_token_id": 0}
_whisper |= {"bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def _sound(padding: str) -> Inputs:
    tokens = _words("none")["input_ids"][:, :TARGET]
    return {"input_features": _noise(BATCH, 8, 2 * LENGTH), "decoder_input_ids": tokens}


def _pictures(padding: str) -> Inputs:
    return {"pixel_values": _noise(BATCH, 3, 16, 16)}


_gpt2 |= {name: WORDS[name] for name in ("bos_token_id", "eos_token_id")}
_language = {**SMALL, **WORDS}
_rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}

ARCHITECTURES = {
    "BERT": _of("Bert", "encoder", **_language),
    "GPT-2": _of("GPT2", "causal", **_gpt2, implementations=("eager", "sdpa")),
    "Llama": _of("Llama", "causal, grouped heads", **_language, **SHARED),
    "Mistral": _of("Mistral", "causal, grouped heads, window", **_language, **SHARED, sliding_window=3),
    "Gemma 2": _of(
        "Gemma2",
        "causal, grouped heads, window, soft cap",
        **_language,
        **SHARED,
        sliding_window=3,
        attn_logit_softcapping=2.0,
        implementations=("eager", "flex"),
    ),
    "ModernBERT": _of(
        "ModernBert",
        "encoder, window",
        **_language,
        local_attention=4,
        global_attn_every_n_layers=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    "GPT-OSS": _of(
        "GptOss",
        "causal, grouped heads, window, sinks",
        **_language,
        **SHARED,
        **_rope,
        sliding_window=3,
        num_local_experts=2,
        num_experts_per_tok=1,
        implementations=("eager",),
    ),
    "T5": _of("T5", "encoder, causal, cross; bias", _pairs, **_t5, implementations=("eager", "sdpa")),
    "Whisper": _of("Whisper", "encoder, causal, cross", _sound, **_whisper, paddings=("none",)),
    "ViT": _of("ViT", "encoder", _pictures, **SMALL, image_size=16, patch_size=4, paddings=("none",)),
    "nn.Transformer": Architecture(
        "encoder, causal, cross", _torch, _vectors, _torch_weights, ("fast path", "sdpa")
    ),
    "x-transformers": _of_x("Encoder", "encoder, bias of distance", alibi_pos_bias=True),
    "x-transformers, causal": _of_x("Decoder", "causal, grouped heads", attn_kv_heads=2),
    "x-transformers, sinks": _of_x(
        "Decoder",
        "causal, sinks, soft cap",
        ("eager",),
        attn_head_learned_sink=True,
        attn_softclamp_logits=True,
    ),
}


def strong(model: Any) -> Any:
    """The model with weights large enough for attention that is far from uniform."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.25)
    return model


@contextmanager
def in_float64() -> Iterator[None]:
    """Eager attention that casts its scores to float32 computes in float64 instead."""
    softmax = Tensor.softmax

    def wide(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        return softmax(x, dim, dtype=None if x.dtype == torch.float64 else dtype)

    with patch.object(Tensor, "softmax", wide):
        yield


@contextmanager
def default(dtype: torch.dtype) -> Iterator[None]:
    """Models and inputs are made with this type of numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
