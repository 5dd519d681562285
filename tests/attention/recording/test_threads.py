"""A recording sees the calls of its own thread, as where a server shows attention in several at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from two_attentions import Both

from attention_lab import MultiheadAttention
from attention_lab.attention import Mechanism, MultiHead, ScaledDot, lengths_mask, recording

THREADS, CALLS = 4, 8
LENGTHS = torch.tensor([4, 2])


class Packed(nn.Module):
    """Sequences without their padding, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = MultiHead(Mechanism(ScaledDot), size=8, heads=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.ours(x, lengths_mask(LENGTHS, x.shape[1]))  # type: ignore[no-any-return]


class Grouped(nn.Module):
    """Queries of a group are attended to as the rows of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = MultiHead(Mechanism(ScaledDot), size=8, heads=2, key_value_heads=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.ours.attend(x, self.ours.remember(x))


class ByHand(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, (x @ x.mT).softmax(-1) @ x)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def _own_layer() -> nn.Module:
    encoder = _encoder()
    for layer in encoder.layers:  # type: ignore[union-attr]
        layer.self_attn = MultiheadAttention.from_torch(layer.self_attn)
    return encoder


MODELS: list[Callable[[], nn.Module]] = [Packed, Grouped, Both, ByHand, _encoder, _own_layer]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", MODELS)
def test_recordings_in_several_threads_do_not_mix(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model, inputs = make().eval(), torch.randn(THREADS, 2, 4, 8)
    before = [{**module.__dict__} for module in model.modules()]
    start = threading.Barrier(THREADS)

    def record(x: Tensor) -> dict[str, Tensor]:
        start.wait()
        with torch.no_grad(), recording(model) as weights:
            for _ in range(CALLS):
                model(x)
        return dict(weights)

    alone = []
    for x in inputs:
        with torch.no_grad(), recording(model) as weights:
            for _ in range(CALLS):
                model(x)
        alone.append(dict(weights))
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(record, inputs))
    for one, other in zip(alone, together, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert [module.__dict__ for module in model.modules()] == before


@pytest.mark.parametrize("make", [Packed, Both, _encoder])
def test_calls_of_another_thread_are_not_recorded_but_named(make: Callable[[], nn.Module]) -> None:
    model, x = make().eval(), torch.randn(2, 4, 8)
    with (
        pytest.warns(UserWarning, match="which ran in another thread"),
        recording(model) as weights,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(model, x)
    assert not weights
