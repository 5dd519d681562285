"""Attention as other people write it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right

B, H, L, D = 3, 4, 6, 8
Attend = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]


class FromFunction(nn.Module):
    """A module that applies a function."""

    def __init__(self, attend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


class Layer(nn.Module):
    """Self-attention of someone else, which attends with a given function."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend, self.num_heads = attend, H
        self.projections = nn.Linear(H * D, 3 * H * D)
        self.output = nn.Linear(H * D, H * D)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in self.projections(x).chunk(3, -1))
        return q, k, v

    def forward(self, x: Tensor) -> Tensor:
        return x + self.output(self.attend(self, *self.heads(x)).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _mask() -> Tensor:
    """Padding, and a row without a key."""
    mask = torch.ones(B, 1, L, L, dtype=torch.bool)
    mask[1, :, :, 4:] = False
    mask[2, :, 2] = False
    return mask


def _bias() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    bias = torch.randn(1, H, L, L, generator=generator, dtype=torch.float64)
    return bias.masked_fill(~_mask(), -torch.inf)


def _like(value: Any, q: Tensor) -> Any:
    """A bias of the type of the queries; all else as it is."""
    return value.to(q.dtype) if type(value) is Tensor and value.dtype != torch.bool else value


def _fused(**options: Any) -> Attend:
    def attend(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        given = {name: _like(value, q) for name, value in options.items()}
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2 if layer.training else 0.0, **given)

    return attend


def _grouped(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k[:, ::2], v[:, ::2], is_causal=True, enable_gqa=True)


def _three(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = _mask().expand(B, H, L, L).flatten(0, 1)
    return F.scaled_dot_product_attention(*(x.flatten(0, 1) for x in (q, k, v)), attn_mask=mask).unflatten(
        0, (B, H)
    )


def _by_hand(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT / D**0.5).masked_fill(~_mask(), -1e9)
    return F.dropout(scores.softmax(-1), 0.3, layer.training) @ v


def _by_hand_in_place(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.baddbmm(torch.zeros(1, dtype=q.dtype), q.flatten(0, 1), k.flatten(0, 1).mT)
    weights = F.dropout(
        torch.softmax(scores, dim=2).to(q.dtype), 0.3, layer.training, not torch.is_grad_enabled()
    )
    return torch.bmm(weights, v.flatten(0, 1)).unflatten(0, (B, H))


def _sink(layer: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.cat([torch.einsum("bhqd,bhkd->bhqk", q, k), q.new_ones(B, H, L, 1)], -1)
    return torch.einsum("bhqk,bhkd->bhqd", F.dropout(F.softmax(scores, -1)[..., :-1], 0.2, layer.training), v)


ATTENDS: dict[str, Attend] = {
    "fused": _fused(),
    "causal": _fused(is_causal=True),
    "mask": _fused(attn_mask=_mask()),
    "bias": _fused(attn_mask=_bias(), scale=0.3),
    "causal bias": _fused(attn_mask=causal_lower_right(L, L)),
    "grouped": _grouped,
    "three dimensions": _three,
    "by hand": _by_hand,
    "by hand, in place": _by_hand_in_place,
    "sink": _sink,
}


def model_of(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(ATTENDS[name]), nn.LayerNorm(H * D), Layer(ATTENDS[name]))


def inputs() -> Tensor:
    return torch.randn(B, L, H * D, generator=torch.Generator().manual_seed(2))
