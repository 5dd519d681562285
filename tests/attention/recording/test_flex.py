"""flex_attention, plain and compiled: its weights, and the function as it was afterwards."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attention_lab.attention import recording

B, H, L, D = 2, 4, 128, 8
LENGTHS = torch.tensor([128, 40])
SLOPES = torch.tensor([0.5, 0.25, 0.1, 0.0])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        yield


def _score(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A soft cap, and less by the distance."""
    return 2.0 * torch.tanh(score / 2.0) - SLOPES[h].to(score.dtype) * (q - k).abs()


def _mask(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Padding and a causal window."""
    return (k <= q) & (q - k < 30) & (k < LENGTHS[b])


class Layer(nn.Module):
    def __init__(self, attend: Callable[..., Tensor], block_mask: Any) -> None:
        super().__init__()
        self.attend, self.block_mask = attend, block_mask

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.attend(q, k, v, _score, self.block_mask, scale=0.5, enable_gqa=True)


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, heads, L, D, generator=generator, dtype=dtype) for heads in (H, 2, 2))
    return q, k, v


def _check(attend: Callable[..., Tensor], dtype: torch.dtype, bound: float) -> None:
    q, k, v = _inputs(dtype)
    model = Layer(attend, create_block_mask(_mask, B, None, L, L, device="cpu"))
    code = flex_attention.__code__
    with torch.no_grad():
        plain = model(q, k, v)
        with recording(model) as weights, recording(model, [1], heads=[3, 1], queries=[-1, 5]) as some:
            assert torch.equal(model(q, k, v), plain)
        assert torch.equal(model(q, k, v), plain)
    assert flex_attention.__code__ is code
    assert list(weights) == list(some) == [""]
    assert (weights[""] @ v.repeat_interleave(2, 1) - plain).abs().max() <= bound
    index = torch.arange(L)
    visible = _mask(torch.arange(B)[:, None, None], index[:0], index[:, None], index)
    assert torch.equal(weights.mask(""), visible[:, None].expand(B, H, L, L))
    assert not weights[""][1, :, 80:].any(), "rows without a key"
    assert torch.allclose(some[""], weights[""][[1]][:, [3, 1]][:, :, [L - 1, 5]], atol=1e-6)


@pytest.mark.long
def test_plain() -> None:
    _check(flex_attention, torch.float64, 1e-12)


@pytest.mark.slow
def test_compiled_is_not_compiled_again() -> None:
    compiled = torch.compile(flex_attention, fullgraph=True)
    _check(compiled, torch.float32, 1e-5)
    counters = torch._dynamo.utils.counters
    counters.clear()
    _check(compiled, torch.float32, 1e-5)
    assert not counters["frames"], "another compilation"
