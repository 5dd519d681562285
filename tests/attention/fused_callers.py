"""Modules that call `scaled_dot_product_attention`, in the ways in which published models do."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

SIZE, HEADS = 16, 4


Options = Callable[[int], dict[str, Any]]


def no_options(length: int) -> dict[str, Any]:
    """No options; a function that can be pickled."""
    return {}


class Caller(nn.Module):
    """Self-attention that passes options of the function, by the length of the input."""

    def __init__(self, options: Options = no_options) -> None:
        super().__init__()
        self.project = nn.Linear(SIZE, 3 * SIZE)
        self.output = nn.Linear(SIZE, SIZE)
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, HEADS, -1)).movedim((-3, -2), (0, -3))
        context = self.attend(query, key, value, **self.options(x.shape[-2]))
        output: Tensor = self.output(context.transpose(-2, -3).flatten(-2))
        return output

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, **options)


class WithBias(Caller):
    """A learned bias for each head and pair of positions, as in a Swin transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(HEADS, 9, 9))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        length = query.shape[-2]
        return super().attend(query, key, value, attn_mask=self.bias[:, :length, :length])


class Grouped(Caller):
    """Two heads of keys and values, each for two heads of queries."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        key, value = key[..., :2, :, :], value[..., :2, :, :]
        return super().attend(query, key, value, enable_gqa=True)


class OneHead(Caller):
    """Without a dimension of heads, and with arguments by name."""

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        context = F.scaled_dot_product_attention(value=value, key=key, query=query, is_causal=True)
        output: Tensor = self.output(context)
        return output


class Cross(Caller):
    """Queries attend to twice as many keys; values have another size than keys."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        key, value = (torch.cat([x, x.flip(-2) * 2], -2) for x in (key, value))
        return super().attend(query, key, torch.cat([value, value], -1), **options)[..., : query.shape[-1]]


def inputs(*shape: int) -> Tensor:
    """Inputs `[..., 16]` of a model."""
    return torch.randn(*shape, SIZE, generator=torch.Generator().manual_seed(1))


def visible(*shape: int) -> Tensor:
    """A mask that leaves the first key visible."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[..., 0] = True
    return mask


def added(*shape: int) -> Tensor:
    """The same mask, to be added to the scores."""
    return torch.zeros(shape).masked_fill(~visible(*shape), -math.inf)


CALLERS: dict[str, Callable[[], nn.Module]] = {
    "plain": Caller,
    "causal": lambda: Caller(lambda length: {"is_causal": True}),
    "scale": lambda: Caller(lambda length: {"scale": 0.9}),
    "mask [Q, K]": lambda: Caller(lambda length: {"attn_mask": visible(length, length)}),
    "mask [B, 1, 1, K]": lambda: Caller(lambda length: {"attn_mask": visible(3, 1, 1, length)}),
    "mask [H, Q, K]": lambda: Caller(lambda length: {"attn_mask": visible(HEADS, length, length)}),
    "mask [Q, 1]": lambda: Caller(lambda length: {"attn_mask": torch.ones(length, 1, dtype=torch.bool)}),
    "added mask": lambda: Caller(lambda length: {"attn_mask": added(3, 1, 1, length)}),
    "causal bias": lambda: Caller(lambda length: {"attn_mask": causal_upper_left(length, length)}),
    "learned bias": WithBias,
    "grouped": Grouped,
    "one head": OneHead,
    "cross": Cross,
    "cross, causal": lambda: Cross(lambda length: {"is_causal": True}),
    "cross, causal bias": lambda: Cross(lambda length: {"attn_mask": causal_lower_right(length, 2 * length)}),
}


class Model(nn.Module):
    """Two layers; `inputs` are `[..., length, 16]`."""

    def __init__(self, build: Callable[[], nn.Module] = CALLERS["causal"]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([build(), build()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x
