"""Other implementations of multi-head attention and the encoder layer, with the parameters of ours."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import MultiHead
from attention_lab.models import Encoder


def torch_multihead(own: MultiHead) -> nn.MultiheadAttention:
    """PyTorch's multi-head attention."""
    module = nn.MultiheadAttention(own.output.in_features, own.heads, batch_first=True)
    copy_multihead(own, module)
    return module


def torch_encoder(own: Encoder, dropout: float = 0.0) -> nn.TransformerEncoder:
    """PyTorch's encoder with one layer; no dropout of attention weights."""
    mine: Any = own.layers[0]
    size, feedforward = mine.feedforward.expand.in_features, mine.feedforward.expand.out_features
    heads = mine.attention.heads
    layer = nn.TransformerEncoderLayer(size, heads, feedforward, dropout, batch_first=True, norm_first=True)
    layer.self_attn.dropout = 0.0
    encoder = nn.TransformerEncoder(layer, 1, nn.LayerNorm(size), enable_nested_tensor=False)
    theirs: Any = encoder.layers[0]
    copy_multihead(mine.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(mine.feedforward.expand.state_dict())
    theirs.linear2.load_state_dict(mine.feedforward.contract.state_dict())
    return encoder


def copy_multihead(own: MultiHead, theirs: nn.MultiheadAttention) -> None:
    """Give PyTorch's multi-head attention the parameters of ours."""
    with torch.no_grad():
        theirs.in_proj_weight.copy_(own.project.weight)
        theirs.in_proj_bias.copy_(own.project.bias)
    theirs.out_proj.load_state_dict(own.output.state_dict())


def x_encoder(size: int, heads: int, layers: int) -> nn.Module:
    """x-transformers' encoder, which has fewer biases and thus its own parameters."""
    from x_transformers import Encoder as XEncoder

    parts = {"dim": size, "depth": layers, "heads": heads, "attn_dim_head": size // heads, "attn_flash": True}
    encoder: nn.Module = XEncoder(**parts, ff_mult=4, ff_custom_activation=nn.ReLU())
    return encoder


def textbook_encoder(own: Encoder, x: Tensor, visible: Tensor) -> Tensor:
    """The output of an encoder with one layer, computed as in the definition."""
    layer: Any = own.layers[0]
    x = x + textbook_multihead(layer.attention, layer.attention_norm(x), visible)
    hidden = F.relu(layer.feedforward.expand(layer.feedforward_norm(x)))
    output: Tensor = own.norm(x + layer.feedforward.contract(hidden))
    return output


def textbook_multihead(own: MultiHead, x: Tensor, visible: Tensor) -> Tensor:
    """`softmax(Q K^T / sqrt(d_k)) V` in each head (1706.03762, eq. 1), with all weights in memory."""
    query, key, value = (
        F.linear(x, weight, bias).view(*x.shape[:2], own.heads, -1).transpose(1, 2)
        for weight, bias in zip(own.project.weight.chunk(3), own.project.bias.chunk(3), strict=True)
    )
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~visible[:, None, None], -torch.inf).softmax(-1)
    output: Tensor = own.output((weights @ value).transpose(1, 2).flatten(-2))
    return output
