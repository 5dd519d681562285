"""The encoder's and the decoder's layer, with the norm before and after, against PyTorch's."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import check_causal, check_steps, exact_toy, toy_encoder

from attention_lab.attention import (
    Additive,
    Mechanism,
    ScaledDot,
    causal_mask,
    lengths_mask,
)
from attention_lab.errors import LabError
from attention_lab.models import GraphClassifier, LanguageModel, MultiHeadClassifier, Transformer
from attention_lab.models.parts.encoder import EncoderLayer
from attention_lab.models.parts.transformer_decoder import DecoderLayer
from attention_lab.models.specs import LayerSpec
from benchmarks.peers.encoders import copy_multihead

SIZE, HEADS, HIDDEN = 16, 4, 24
norms = pytest.mark.parametrize("norm", ["pre", "post"])


def _spec(norm: str) -> LayerSpec:
    return LayerSpec(d_model=SIZE, heads=HEADS, layers=1, feedforward=HIDDEN, norm=norm)


def _with_random_norms(layer: nn.Module) -> Any:
    """Otherwise, a norm of scale 1 and shift 0 could stand in the wrong place unseen."""
    torch.manual_seed(0)
    for part in layer.modules():
        if isinstance(part, nn.LayerNorm):
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return layer.double().eval()


def _copy_feed_forward(own: Any, theirs: Any) -> None:
    theirs.linear1.load_state_dict(own.feedforward.expand.state_dict())
    theirs.linear2.load_state_dict(own.feedforward.contract.state_dict())


def _check_equal(found: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    upstream = torch.randn_like(found)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    left, right = (torch.autograd.grad(y, inputs, upstream) for y in (found, expected))
    torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


@norms
def test_an_encoder_layer(norm: str) -> None:
    own = _with_random_norms(EncoderLayer(Mechanism(ScaledDot), _spec(norm)))
    theirs: Any = nn.TransformerEncoderLayer(
        SIZE, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    copy_multihead(own.attention, theirs.self_attn)
    _copy_feed_forward(own, theirs)
    theirs.norm1.load_state_dict(own.attention_norm.state_dict())
    theirs.norm2.load_state_dict(own.feedforward_norm.state_dict())
    x = torch.randn(2, 5, SIZE, dtype=torch.float64, requires_grad=True)
    visible = lengths_mask(torch.tensor([5, 3]), 5)
    _check_equal(own(x, visible), theirs(x, src_key_padding_mask=~visible.squeeze(1)), x)


@norms
def test_a_decoder_layer(norm: str) -> None:
    own = _with_random_norms(DecoderLayer(Mechanism(ScaledDot), _spec(norm), None))
    theirs: Any = nn.TransformerDecoderLayer(
        SIZE, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    copy_multihead(own.self, theirs.self_attn)
    copy_multihead(own.cross, theirs.multihead_attn)
    _copy_feed_forward(own, theirs)
    for name, part in (("norm1", own.self_norm), ("norm2", own.cross_norm), ("norm3", own.feedforward_norm)):
        getattr(theirs, name).load_state_dict(part.state_dict())
    x, source = (torch.randn(2, n, SIZE, dtype=torch.float64, requires_grad=True) for n in (5, 7))
    found, _ = own(x, own.cross.remember(source), None, 0)
    _check_equal(found, theirs(x, source, tgt_mask=~causal_mask(5)), x, source)


@pytest.mark.parametrize("score", [ScaledDot, Additive])
def test_post_norm_step_by_step_and_padded(score: type) -> None:
    model = exact_toy(Transformer, score, norm="post")
    check_steps(model)
    check_causal(model)
    x, lengths = torch.randn(2, 8, 8, dtype=torch.float64), torch.tensor([8, 3])
    encoder = toy_encoder(score, d_model=8, norm="post", causal=True)
    found = encoder(x, lengths)
    assert torch.allclose(encoder(x[1:, :3])[0], found[1, :3], atol=1e-12)
    state, parts = None, []
    for part in x[:1].split([1, 3, 4], 1):
        output, state = encoder.step(part, state)
        parts.append(output)
    assert torch.allclose(torch.cat(parts, 1), found[:1], atol=1e-10)


@norms
@pytest.mark.parametrize("kind", [Transformer, LanguageModel, MultiHeadClassifier, GraphClassifier])
def test_only_pre_norm_layers_are_followed_by_a_final_norm(kind: Any, norm: str) -> None:
    names = {name.rpartition(".")[0] for name in exact_toy(kind, norm=norm).state_dict()}
    final = {name for name in names if name.split(".")[-1] == "norm"}
    assert bool(final) == (norm == "pre"), final


def test_an_unknown_norm() -> None:
    with pytest.raises(LabError, match=r"^model\.norm=first is unknown: choose pre or post$"):
        _spec("first")
